// A layout file of the command line with its manifest, fitted to the counts of the same command line.
#pragma once

#include <optional>
#include <string>

#include "evaluation/count_input.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"

namespace eplb {

struct LayoutInput {
    LayoutFile file;
    std::optional<Manifest> manifest;  // beside the file

    // Record slots of the counts that the layout was fitted on, ascending; empty when it was fitted on other counts;
    // absent when no manifest tells.
    std::optional<std::vector<int>> fitted;
};

// R comes from `ranks`, else from the manifest (Error{usage} when neither knows it). Throws Error{input} when they
// disagree, or when the layout does not go with the counts.
LayoutInput load_layout(const std::string& path, std::optional<int> ranks, const CountInput& input);

}  // namespace eplb
