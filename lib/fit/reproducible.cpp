#include "fit/reproducible.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace eplb {

double natural_log(double x) {
    // x = m * 2^k with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh((m - 1) / (m + 1)).
    constexpr double sqrt_half = 0.70710678118654752440, ln_2 = 0.69314718055994530942;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    int exponent = static_cast<int>(bits >> 52) - 1022;
    double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3fe0000000000000u);  // [1/2, 1)
    if (mantissa < sqrt_half) {
        mantissa *= 2;
        --exponent;
    }
    const double s = (mantissa - 1) / (mantissa + 1), square = s * s;  // |s| <= 0.1716: 12 terms reach 1e-19
    double sum = 0;
    for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return exponent * ln_2 + 2 * s * sum;
}

double quarter_power(double x, int quarters) {
    double result = 1;
    for (int k = 0; k < quarters / 4; ++k) result *= x;
    if (quarters % 4 >= 2) result *= std::sqrt(x);
    if (quarters % 2 == 1) result *= std::sqrt(std::sqrt(x));
    return result;
}

}  // namespace eplb
