// Count files: the table of formats, and the reading and writing of one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/count_options.hpp"
#include "core/error.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"
#include "core/window_facts.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

// One decoded count file. The tensor is 3-D [record slots, layers, experts] (a 2-D file is one record slot), of any
// number type: `check` judges the values.
struct CountFile {
    std::string path;        // as given
    std::string format;      // name in the table
    std::string sha256;      // 64 hex digits, of the whole file
    std::int64_t bytes = 0;  // file size
    Tensor tensor;
    Reduction reduction = Reduction::unknown;  // reduced where the format says so by definition
    std::optional<std::string> saved_on;       // device a .pt was saved from, e.g. "npu:0"
    std::optional<WindowFacts> window;         // from the sidecar beside the file, or from the format
    std::vector<Finding> findings;             // what the reader noticed, all info: EXTRA_KEYS, TENSOR_CHOSEN
    std::shared_ptr<const MappedFile> source;  // the whole file
};

// Reads one file, format sniffed from its content or taken from the options. Throws Error{input} that names file,
// place, value and remedy when it cannot be decoded. Its finding_code() is one of
//   EMPTY_FILE        no bytes
//   TRUNCATED         cut short, or its end is zeros
//   CRC_MISMATCH      a checksum of the file contradicts its bytes
//   NOT_A_COUNT_FILE  another kind of file, or nothing in it can be told to be the counts
//   LEGACY_FORMAT     a torch file from before torch 1.6
//   UNSUPPORTED_FILE  counts in a form that is not read: encryption, values in other files
//   UNSUPPORTED_TYPE  the elements are no numbers
//   UNKNOWN_GLOBAL    a pickle that names what no count file needs
//   BAD_GEOMETRY      shape, strides or sizes that do not go with the bytes
//   SIDECAR_MISMATCH  the window sidecar beside the file cannot be read or belongs to another file
//   MALFORMED         anything else that breaks the format's rules
//   READER_CRASHED    --pt-reader libtorch: libtorch died
// and empty when the file cannot be opened at all.
CountFile read_count_file(const std::string& path, const CountOptions& options);

// The same for a file that is open already; its bytes and digest can then be shown even when it cannot be decoded.
CountFile decode_count_file(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);

// An error of reading `path` as a validator reports it: severity error, the code above (UNREADABLE when it is empty),
// the place inside the file.
Finding finding_of(const Error& error, std::string_view path);

// The codes above, and those of cross_check_with_libtorch(): with one of them nothing can be said of the counts.
std::span<const std::string_view> undecodable_codes();

std::vector<std::string_view> count_format_names();

// Bytes of a count file as `format`: "pt" as SGLang's recorder saves it, "npy", or "h5" with Fletcher32. The same
// counts give the same bytes. counts: contiguous [record slots, layers, experts], int32 or int64. rank: who writes a
// .pt. Throws Error{usage} for another format.
std::vector<std::byte> encode_counts(std::string_view format, const Tensor& counts, int rank = 0);

}  // namespace eplb
