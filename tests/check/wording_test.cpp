#include <catch2/catch.hpp>
#include <vector>

#include "check/wording.hpp"

using namespace eplb;

TEST_CASE("numbers are written as ranges, and a long list says how many are left") {
    CHECK(number_ranges(std::vector<int>{}) == "");
    CHECK(number_ranges(std::vector<int>{0, 1, 2, 7, 9, 10}) == "0-2, 7, 9-10");
    CHECK(number_ranges(std::vector<int>{0, 2, 4, 6, 7}, 2) == "0, 2 and 3 more");
    CHECK(number_ranges(std::vector<int>{0, 2}, 2) == "0, 2");
}
