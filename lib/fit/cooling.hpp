// What the annealers of the window objective share: a norm near the maximum, from operations that round alike
// everywhere.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/random.hpp"

namespace eplb {

// x^32, and the root of it: sqrt is exact to the last bit on every machine, pow is not.
constexpr double power32(double x) {
    for (int squaring = 0; squaring < 5; ++squaring) x *= x;
    return x;
}

inline double root32(double x) {
    for (int halving = 0; halving < 5; ++halving) x = std::sqrt(x);
    return x;
}

// Exponential with mean 1, up to 9 %: -ln of a uniform number, linear between powers of two.
inline double draw_exponential(Random& random) {
    const std::uint64_t bits = random.next() | 1;
    const int zeros = std::countl_zero(bits);
    const double mantissa = static_cast<double>((bits << zeros) >> 11) * 0x1.0p-52;  // in [1, 2)
    return 0.6931471805599453 * (zeros + 2 - mantissa);
}

// A temperature that falls to a hundredth in this many steps.
inline constexpr int cooling_stages = 256;
inline constexpr double cooling_factor = 0.9821718891880378;  // 0.01^(1/256)

}  // namespace eplb
