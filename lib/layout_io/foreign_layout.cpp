#include "layout_io/foreign_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace eplb {
namespace {

using namespace std::string_view_literals;

struct BinaryFormat {
    std::string_view magic, name;
};
constexpr std::array<BinaryFormat, 10> binary_formats{{
    {"PK\x03\x04"sv, "a zip archive"},
    {"\x80\x02"sv, "a Python pickle, or a torch file from before torch 1.6"},
    {"\x80\x04"sv, "a Python pickle"},
    {"\x93NUMPY"sv, "a NumPy .npy file"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"\x1f\x8b"sv, "compressed with gzip"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd"},
    {"\xfd"
     "7zXZ"sv,
     "compressed with xz"},
    {"BZh"sv, "compressed with bzip2"},
    {"version https://git-lfs"sv, "a Git LFS pointer, not the file itself"},
}};

std::string_view binary_format(std::string_view content) {
    for (const BinaryFormat& format : binary_formats) {
        if (!content.starts_with(format.magic)) continue;
        const bool torch = content.substr(0, 4096).find("data.pkl") != std::string_view::npos;
        return torch && format.magic.starts_with("PK") ? "a torch .pt file" : format.name;
    }
    // safetensors: the length of its JSON header in 8 bytes, then the header.
    if (content.size() > 9 && content[8] == '{' && content.substr(5, 3) == "\0\0\0"sv) return "a safetensors file";
    return "";
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

// Of text that cannot be JSON, which begins with a bracket, a quote, a number or a literal.
std::string_view text_format(std::string_view content) {
    const std::size_t first = content.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || content[first] == '{' || content[first] == '[') return "";
    const std::string_view line = content.substr(first, content.find_first_of("\r\n", first) - first);
    const auto word = static_cast<std::size_t>(std::find_if_not(line.begin(), line.end(), is_word) - line.begin());
    const bool key = word > 0 && word < line.size() && line[word] == ':';
    if (key || line.starts_with("---") || line.starts_with("- ") || line.starts_with("%YAML") ||
        line.starts_with('#')) {
        return "a YAML file";
    }
    const bool cells = line.find_first_of(",;\t") != std::string_view::npos && line.front() != '"';
    return cells ? "a table of text (CSV)" : "";
}

}  // namespace

void refuse_foreign_layout(std::string_view content) {
    std::string_view format = binary_format(content);
    if (format.empty()) format = text_format(content);
    if (format.empty()) return;
    throw Error(ErrorCode::input, "", fmt::format("is {}, not a layout", format), layout_form_hint)
        .as_finding("NO_LAYOUT");
}

std::string foreign_layout_object(const JsonValue& object) {
    struct Known {
        std::string_view key, what;
    };
    constexpr std::array<Known, 6> known{{
        {"moe_layer_count", "is vllm-ascend's expert map (moe_layer_count, layer_list)"},
        {"layer_list", "is vllm-ascend's expert map (layer_list)"},
        {"initial_global_assignments", "is TensorRT-LLM's load balancer configuration"},
        {"logical_to_physical_map", "holds logical_to_physical_map, the other direction"},
        {"logical_to_all_physical_map", "holds logical_to_all_physical_map, the other direction"},
        {"weight_map", "is the index of a checkpoint"},
    }};
    for (const Known& one : known) {
        if (object.find(one.key)) return std::string(one.what);
    }
    return "";
}

}  // namespace eplb
