#include "core/record_split.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"

using namespace eplb;

TEST_CASE("only record slots with counts take part in a split") {
    const std::vector<std::int64_t> totals{0, 5, 0, 7, 1, 9, 3};
    const std::vector<int> filled = filled_slots(totals);
    CHECK(filled == std::vector<int>{1, 3, 4, 5, 6});

    const RecordSplit interleaved = split_record_slots(filled, Holdout::interleave);
    CHECK(interleaved.fit == std::vector<int>{1, 4, 6});
    CHECK(interleaved.holdout == std::vector<int>{3, 5});

    const RecordSplit halves = split_record_slots(filled, Holdout::halves);
    CHECK(halves.fit == std::vector<int>{1, 3, 4});
    CHECK(halves.holdout == std::vector<int>{5, 6});

    const RecordSplit last = split_record_slots(filled, Holdout::last);
    CHECK(last.fit == std::vector<int>{1, 3, 4});
    CHECK(last.holdout == std::vector<int>{5, 6});

    const RecordSplit whole = split_record_slots(filled, Holdout::none);
    CHECK(whole.fit == filled);
    CHECK(whole.holdout.empty());
}

TEST_CASE("record slots with the same counts are dealt as one") {
    // Slots 1 and 3 are one, 4 and 9 are one: the different ones are 1, 4, 6, 7.
    const std::vector<int> filled{1, 3, 4, 6, 7, 9}, first_equal{0, 0, 2, 3, 4, 2};
    const RecordSplit interleaved = split_record_slots(filled, Holdout::interleave, first_equal);
    CHECK(interleaved.fit == std::vector<int>{1, 3, 6});
    CHECK(interleaved.holdout == std::vector<int>{4, 7, 9});

    const RecordSplit halves = split_record_slots(filled, Holdout::halves, first_equal);
    CHECK(halves.fit == std::vector<int>{1, 3, 4, 9});
    CHECK(halves.holdout == std::vector<int>{6, 7});
    CHECK(split_record_slots(filled, Holdout::last, first_equal).holdout == halves.holdout);

    CHECK(split_record_slots(filled, Holdout::none, first_equal).fit == filled);
    const std::vector<int> one{0, 0, 0, 0, 0, 0};
    CHECK(split_record_slots(filled, Holdout::interleave, one).holdout.empty());
}

TEST_CASE("one record slot leaves nothing to judge on") {
    const std::vector<int> one{3};
    CHECK(split_record_slots(one, Holdout::interleave).holdout.empty());
    CHECK(split_record_slots(one, Holdout::halves).holdout.empty());
}

TEST_CASE("names of splits round-trip and others are refused") {
    for (const Holdout holdout : {Holdout::interleave, Holdout::halves, Holdout::last, Holdout::none})
        CHECK(parse_holdout(name_of(holdout)) == holdout);
    CHECK_THROWS_AS(parse_holdout("random"), Error);
}
