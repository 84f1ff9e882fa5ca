// The few functions of a real number that the generator needs, from operations that IEEE 754 rounds in one way only.
// A libm result may differ in its last bit between machines, and one bit would change the counts.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/random.hpp"

namespace eplb {

// e^x for |x| <= 700, to about 1e-15 relative: 2^k times the Taylor series of the rest, |rest| <= ln(2) / 2.
inline double plain_exp(double x) {
    constexpr double log2_e = 0x1.71547652b82fep+0;
    constexpr double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;  // k * ln2_high is exact
    constexpr int terms = 14;                                                           // (ln(2)/2)^14 / 14! < 5e-18
    constexpr std::array<double, terms> inverse_factorial = [] {
        std::array<double, terms> values{1.0};
        double factorial = 1.0;
        for (int n = 1; n < terms; ++n) values[static_cast<std::size_t>(n)] = 1.0 / (factorial *= n);
        return values;
    }();
    const auto k = static_cast<std::int64_t>(x * log2_e + (x < 0 ? -0.5 : 0.5));
    const double rest = (x - static_cast<double>(k) * ln2_high) - static_cast<double>(k) * ln2_low;
    double sum = 0;
    for (std::size_t n = terms; n-- > 0;) sum = sum * rest + inverse_factorial[n];
    return sum * std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}

// Nearly normal, mean 0 and variance 1, never beyond +-6: the sum of twelve uniform numbers less its mean.
inline double plain_normal(Random& random) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.unit();
    return sum;
}

// Positive with a heavy tail, P(value > v) ~ v^-4 far out: |normal| over the fourth root of a uniform number. IEEE 754
// fixes every bit of sqrt.
inline double plain_heavy_tail(Random& random) {
    const double normal = plain_normal(random);
    return (normal < 0 ? -normal : normal) / std::sqrt(std::sqrt(1.0 - random.unit()));
}

}  // namespace eplb
