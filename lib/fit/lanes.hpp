// Eight floats that are worked on together, in the same order on every machine.
#pragma once

#include <array>
#include <cstddef>

namespace eplb {

inline constexpr int lane_count = 8;

// Not a hardware register: on machines with narrower ones the compiler splits it, and the bits stay the same.
struct alignas(lane_count * sizeof(float)) Lanes {
    std::array<float, lane_count> values{};
};

constexpr int vectors_for(int slots) {
    return (slots + lane_count - 1) / lane_count;
}

}  // namespace eplb
