// Two integer types that do not mix: a logical expert and a physical slot.
#pragma once

#include <compare>
#include <cstdint>

namespace eplb {

// A logical (router) expert of one layer, 0 <= value < E.
struct ExpertId {
    std::int32_t value = 0;
    auto operator<=>(const ExpertId&) const = default;
};

// A physical slot of one layer, 0 <= value < R*S: the weights of one expert on rank value / S at local index value % S.
struct SlotId {
    std::int32_t value = 0;
    auto operator<=>(const SlotId&) const = default;
};

}  // namespace eplb
