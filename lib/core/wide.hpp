// Comparisons of ratios of 64-bit integers without rounding.
#pragma once

#include <cstdint>

namespace eplb {

__extension__ using int128 = __int128;

// a / b > c / d for b, d > 0, exactly.
constexpr bool ratio_greater(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<int128>(a) * d > static_cast<int128>(c) * b;
}

}  // namespace eplb
