// The flags of eplb-validate, as values.
#pragma once

#include <optional>
#include <string>

#include "check/layout.hpp"
#include "cli/common_options.hpp"
#include "core/count_options.hpp"

namespace eplb {

struct ValidateOptions {
    cli::CommonOptions common;
    CountOptions counts;  // ranks, layers and experts are also those that a layout must have
    bool strict = false;  // warnings count as errors
    // With --layout FILE no counts are read.
    std::optional<std::string> layout;
    std::optional<std::string> dispatch_table;
    std::optional<int> nodes, redundant_total;
    const LayoutTarget* target = nullptr;
};

// Opens no file.
ValidateOptions parse_options(int argc, char** argv);

}  // namespace eplb
