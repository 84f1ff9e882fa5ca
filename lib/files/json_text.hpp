// JSON that is printed: always valid, whatever bytes the names in it have.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace eplb {

// The value as one line, or indented by `indent` spaces a level, with a newline at its end. Bytes that are no UTF-8, as
// names of files may have, become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace eplb
