#include "loader/geometry_members.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace eplb {

nlohmann::ordered_json geometry_members(const Geometry& geometry) {
    return {{"layers", geometry.layers},
            {"experts", geometry.experts},
            {"ranks", geometry.ranks},
            {"slots_per_rank", geometry.slots_per_rank}};
}

Geometry read_geometry_members(const JsonValue& value) {
    constexpr std::array<std::string_view, 4> keys{"layers", "experts", "ranks", "slots_per_rank"};
    value.allow_keys(keys);
    const auto extent = [&](std::string_view key, int most) {
        return static_cast<int>(value.at(key).as_integer(1, most));
    };
    return {extent("layers", max_layers), extent("experts", max_experts), extent("ranks", max_ranks),
            extent("slots_per_rank", max_experts)};
}

}  // namespace eplb
