#include "core/equal_slots.hpp"

#include <catch2/catch.hpp>
#include <numeric>

using namespace eplb;

namespace {

// [5, 2, 2]: slot 2 repeats slot 0 and slot 4 repeats slot 1; slot 3 equals slot 0 in layer 0 alone.
const std::vector<std::int64_t> values{1, 2, 3, 4,   //
                                       5, 6, 7, 8,   //
                                       1, 2, 3, 4,   //
                                       1, 2, 4, 3,   //
                                       5, 6, 7, 8};  //

std::vector<int> numbers_below(int n) {
    std::vector<int> numbers(static_cast<std::size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

}  // namespace

TEST_CASE("a record slot belongs to the first one with the same counts in every layer") {
    const Counts counts({make_count_tensor(values, 5, 2, 2)});
    CHECK(first_equal(counts, numbers_below(5)) == std::vector<int>{0, 1, 0, 3, 1});
    CHECK(distinct(first_equal(counts, numbers_below(5))) == 3);
}

TEST_CASE("equal record slots are named by their position in the list") {
    const Counts counts({make_count_tensor(values, 5, 2, 2)});
    CHECK(first_equal(counts, std::vector<int>{2, 4, 1, 0}) == std::vector<int>{0, 1, 1, 0});
    CHECK(first_equal(counts, std::vector<int>{}).empty());
    CHECK(distinct({}) == 0);
}

TEST_CASE("gathered layers have the equal record slots of the counts they come from") {
    const Counts counts({make_count_tensor(values, 5, 2, 2)});
    const std::vector<int> slots = numbers_below(5);
    const std::vector<LayerCounts> layers{gather(counts, 0, slots), gather(counts, 1, slots)};
    CHECK(first_equal(layers) == std::vector<int>{0, 1, 0, 3, 1});
    CHECK(first_equal(std::span(layers).first(1)) == std::vector<int>{0, 1, 0, 0, 1});
    CHECK(first_equal(std::span<const LayerCounts>{}).empty());
}

TEST_CASE("record slots of one hash and different counts stay apart") {
    const Counts counts({make_count_tensor(values, 5, 2, 2)});
    const std::vector<std::uint64_t> collide(5, 7);
    CHECK(first_equal(counts, numbers_below(5), collide) == std::vector<int>{0, 1, 0, 3, 1});
}

TEST_CASE("a number in another place, and a zero more, give another hash") {
    const auto hash = [](std::vector<std::int64_t> row) {
        RowHash of_row;
        of_row.add(row);
        return of_row.value();
    };
    CHECK(hash({1, 2, 3, 4, 5}) == hash({1, 2, 3, 4, 5}));
    CHECK(hash({1, 2, 3, 4, 5}) != hash({2, 1, 3, 4, 5}));
    CHECK(hash({1, 2, 3, 4, 5}) != hash({1, 2, 3, 4, 5, 0}));
    CHECK(hash({}) != hash({0}));
}
