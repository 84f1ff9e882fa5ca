#include "core/random.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "core/wide.hpp"

using namespace eplb;

// Outputs published with the reference code of splitmix64, from state 1234567.
TEST_CASE("split_mix gives the published sequence") {
    std::uint64_t state = 1234567;
    CHECK(split_mix(state) == 6457827717110365317u);
    CHECK(split_mix(state) == 3203168211198807973u);
    CHECK(split_mix(state) == 9817491932198370423u);
}

TEST_CASE("streams of neighbouring layers differ") {
    std::set<std::uint64_t> seeds;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (std::uint64_t layer = 0; layer < 50; ++layer) seeds.insert(stream_seed(seed, layer));
    }
    CHECK(seeds.size() == 1000);
}

TEST_CASE("below is inside its bound and reaches every value") {
    Random random(7);
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 1000; ++i) {
        const std::uint32_t value = random.below(13);
        REQUIRE(value < 13);
        seen.insert(value);
    }
    CHECK(seen.size() == 13);
    CHECK(random.below(1) == 0);
}

TEST_CASE("unit lies below one, with mean one half") {
    Random random(11);
    double sum = 0;
    for (int i = 0; i < 10000; ++i) {
        const double value = random.unit();
        REQUIRE((value >= 0 && value < 1));
        sum += value;
    }
    CHECK(std::abs(sum / 10000 - 0.5) < 0.0145);  // five standard errors of a uniform mean: 5 * 0.2887 / 100
}

TEST_CASE("ratios are compared without rounding") {
    const std::int64_t large = 9223372036854775807;
    CHECK(ratio_greater(large, large - 1, 1, 1));
    CHECK_FALSE(ratio_greater(1, 1, large, large));
    CHECK(ratio_greater(16777217, 1, 16777216, 1));  // equal in float32
}
