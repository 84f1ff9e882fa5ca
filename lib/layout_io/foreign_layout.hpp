// Files that are taken for layouts: other engines' and other formats, called by their names.
#pragma once

#include <string>
#include <string_view>

#include "files/json_document.hpp"

namespace eplb {

inline constexpr const char* layout_form_hint =
    "a layout is JSON: an object with the key physical_to_logical_map, for each layer the expert of every physical "
    "slot";

// Throws Error{input} (finding code NO_LAYOUT) that names the format when the content is that of a known format other
// than JSON.
void refuse_foreign_layout(std::string_view content);

// What an object without the key of a layout is, where that is known: "is vllm-ascend's expert map"; else empty.
std::string foreign_layout_object(const JsonValue& object);

}  // namespace eplb
