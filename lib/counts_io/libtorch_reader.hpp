// Torch files through libtorch: --pt-reader libtorch and --cross-check libtorch.
#pragma once

#include <memory>
#include <optional>

#include "core/count_options.hpp"
#include "core/finding.hpp"
#include "counts_io/count_file.hpp"
#include "counts_io/count_formats.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

// What libtorch makes of the file, read in a child process: it ignores checksums, and crashes on hostile geometry.
// Throws Error{input} with finding code READER_CRASHED, or MALFORMED with libtorch's reason; Error{usage} when the
// plugin is not installed.
DecodedCounts read_pt_with_libtorch(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);

// Compares what the native reader made of a file with what libtorch makes of it. Nothing when they agree; an error
// CROSS_CHECK_DIFFERS with the first coordinate; an info CROSS_CHECK_NOT_POSSIBLE when libtorch refuses the file or
// dies of it, or when the file is no torch file. Throws Error{usage} when the plugin is not installed, or
// when libtorch read the file in the first place.
std::optional<Finding> cross_check_with_libtorch(const CountFile& native, const CountOptions& options);

}  // namespace eplb
