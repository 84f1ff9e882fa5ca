// Layout files: `physical_to_logical_map` JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/layout.hpp"
#include "core/raw_layout.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

// The text of X.json: one object with the one key physical_to_logical_map (SGLang refuses any other), a row per line.
std::string encode_layout(const Layout& layout);

struct LayoutFile {
    std::string path, sha256;
    Layout layout;
};

// Reads a map. R comes from `ranks`; E is the largest id + 1 unless `experts` is given. Throws Error{input} with the
// JSON path when it is not a rectangular map of whole numbers, when P does not divide by R, when an id is outside
// 0..E-1, and when there is any other key. The layout may be illegal otherwise: `check` judges it.
LayoutFile read_layout(const std::string& path, int ranks, std::optional<int> experts);
LayoutFile read_layout(const MappedFile& file, int ranks, std::optional<int> experts);  // stdin can be read only once

// The same from a file that has been read already.
Layout decode_layout(std::string_view text, int ranks, std::optional<int> experts);

// What a layout file says, as leniently as JSON allows, so that a validator can name all that is wrong with it. Throws
// Error{input} when it is no JSON object with a list of lists under physical_to_logical_map.
RawLayout decode_raw_layout(std::string_view text, std::string path);

// "X.json" -> "X.manifest.json"
std::string manifest_path(const std::string& layout_path);

}  // namespace eplb
