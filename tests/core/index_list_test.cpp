#include "core/index_list.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"

using namespace eplb;

namespace {

std::vector<int> numbers(const IndexList& list, int below) {
    std::vector<int> found;
    for (int number = 0; number < below; ++number) {
        if (list.contains(number)) found.push_back(number);
    }
    return found;
}

}  // namespace

TEST_CASE("lists of numbers are single ones, ranges and every n-th of a range") {
    CHECK(numbers(IndexList::parse("--x", "5"), 10) == std::vector{5});
    CHECK(numbers(IndexList::parse("--x", "0-2,7,5-5"), 10) == std::vector{0, 1, 2, 5, 7});
    CHECK(numbers(IndexList::parse("--x", "1-8/3"), 10) == std::vector{1, 4, 7});
    CHECK(IndexList::parse("--x", "1-8/3").largest() == 7);
    CHECK(IndexList::parse("--x", "9,0-3").largest() == 9);
    CHECK(IndexList::parse("--x", "9,0-3").text() == "9,0-3");
    CHECK(IndexList::parse("--x", "0-2147483647").contains(2147483647));
}

TEST_CASE("what is no list of numbers is refused at its flag") {
    for (const std::string text :
         {"", "a", "1,", ",1", "1-", "-1", "1--2", "3-1", "1-2/0", "1-2/", "1/", "1 2", "0x1", "2147483648", "1-2-3"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(IndexList::parse("--x", text), Error);
    }
    try {
        IndexList::parse("--drop-slots", "3-1");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::usage);
        CHECK(error.where() == "--drop-slots");
        CHECK(error.message() == "'3-1' goes down from 3 to 1");
    }
}

TEST_CASE("a list is made of a number of leading ones, or of numbers") {
    CHECK(numbers(IndexList::below(3), 10) == std::vector{0, 1, 2});
    CHECK(IndexList::below(0).empty());
    CHECK(IndexList::below(0).largest() == -1);
    const IndexList list = IndexList::of({0, 2, 3, 4, 9});
    CHECK(numbers(list, 12) == std::vector{0, 2, 3, 4, 9});
    CHECK(list.text() == "0,2-4,9");
    CHECK(numbers(IndexList::parse("--x", list.text()), 12) == std::vector{0, 2, 3, 4, 9});
}
