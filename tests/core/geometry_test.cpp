#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "core/geometry.hpp"

using namespace eplb;

TEST_CASE("256 experts on 3 ranks are refused with the nearest redundancies that work") {
    CHECK(nearest_redundant_totals(256, 3, 0) == std::vector<int>{2, 5});
    CHECK_THROWS_AS(slots_for_redundant_total(256, 3, 0), Error);
    CHECK(slots_for_redundant_total(256, 3, 2) == 86);
}

TEST_CASE("60 experts on 8 ranks need 4 more") {
    CHECK(nearest_redundant_totals(60, 8, 0).front() == 4);
}

TEST_CASE("redundancy in total and per rank are different numbers") {
    CHECK(slots_for_redundant_total(256, 16, 16) == 17);
    CHECK(slots_for_redundant_per_rank(256, 16, 1) == 17);
    CHECK(slots_for_redundant_per_rank(256, 16, 16) == 32);
}

TEST_CASE("a rank never needs an expert twice") {
    CHECK_NOTHROW(require_feasible({1, 4, 3, 4}));
    CHECK_THROWS_AS(require_feasible({1, 4, 3, 5}), Error);
    CHECK_THROWS_AS(require_feasible({1, 7, 3, 2}), Error);
}
