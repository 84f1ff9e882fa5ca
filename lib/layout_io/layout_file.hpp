// Layout files: `physical_to_logical_map` JSON, and the manifest beside it.
#pragma once

#include <optional>
#include <string>

#include "core/layout.hpp"

namespace eplb {

// The text of X.json: one object with the one key physical_to_logical_map (SGLang refuses any other), a row per line.
std::string encode_layout(const Layout& layout);

struct LayoutFile {
    std::string path, sha256;
    Layout layout;
};

// Reads a map. R comes from `ranks`; E is the largest id + 1 unless `experts` is given. Throws Error{input} with the
// JSON path when it is not a rectangular map of whole numbers, when P does not divide by R, and when an id is outside
// 0..E-1.
LayoutFile read_layout(const std::string& path, int ranks, std::optional<int> experts);

// "X.json" -> "X.manifest.json"
std::string manifest_path(const std::string& layout_path);

}  // namespace eplb
