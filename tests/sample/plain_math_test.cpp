#include "sample/plain_math.hpp"

#include <catch2/catch.hpp>
#include <cmath>

using namespace eplb;

TEST_CASE("plain_exp agrees with the exponential to 1e-14") {
    CHECK(plain_exp(0.0) == 1.0);
    CHECK(plain_exp(1.0) == Approx(2.718281828459045).epsilon(1e-14));
    CHECK(plain_exp(-1.0) == Approx(0.36787944117144233).epsilon(1e-14));
    double worst = 0;
    for (double x = -700; x <= 700; x += 0.37) worst = std::max(worst, std::abs(plain_exp(x) / std::exp(x) - 1));
    CHECK(worst < 1e-14);
}

TEST_CASE("plain_normal has mean 0 and variance 1") {
    Random random(9);
    constexpr int draws = 100000;
    double sum = 0, squares = 0;
    for (int i = 0; i < draws; ++i) {
        const double value = plain_normal(random);
        sum += value;
        squares += value * value;
    }
    CHECK(std::abs(sum / draws) < 5 / std::sqrt(draws));
    CHECK(std::abs(squares / draws - 1) < 5 * std::sqrt(2.0 / draws));
}

TEST_CASE("plain_heavy_tail is positive, and large values fall off with the fourth power") {
    // P(|normal| / u^(1/4) > v) = E[min(1, (|normal| / v)^4)], about E[normal^4] / v^4 = 3 / v^4 far out (2.9 for the
    // sum of twelve uniform numbers, whose fourth moment is 3 - 12 * 1/120).
    Random random(4);
    constexpr int draws = 1000000;
    int above_8 = 0;
    for (int i = 0; i < draws; ++i) {
        const double value = plain_heavy_tail(random);
        if (value < 0) FAIL("negative");
        above_8 += value > 8 ? 1 : 0;
    }
    const double expected = draws * 2.9 / (8.0 * 8 * 8 * 8);
    CHECK(std::abs(above_8 - expected) < 5 * std::sqrt(expected));
}
