#include "files/json_text.hpp"

#include <nlohmann/json.hpp>

namespace eplb {

std::string json_text(const nlohmann::ordered_json& value, int indent) {
    return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace eplb
