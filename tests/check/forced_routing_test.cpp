// Counts that no router made.
#include <catch2/catch.hpp>

#include "core/random.hpp"
#include "samples.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

Finding forced(const Sample& sample) {
    return find(check_sample(sample).findings, "FORCED_ROUTING");
}

// Draws every count of a row from its expert's share: `popularity(layer, expert)` in equally likely tokens.
template <typename Popularity>
Sample drawn(int slots, int layers, int experts, int tokens, const Popularity& popularity) {
    Sample sample(slots, layers, experts);
    Random random(7);
    for (int layer = 0; layer < layers; ++layer) {
        std::vector<int> owner;
        for (int expert = 0; expert < experts; ++expert)
            owner.insert(owner.end(), static_cast<std::size_t>(popularity(layer, expert)), expert);
        for (int slot = 0; slot < slots; ++slot) {
            for (int token = 0; token < tokens; ++token) {
                ++sample.at(slot, layer, owner[random.below(static_cast<std::uint32_t>(owner.size()))]);
            }
        }
    }
    return sample;
}

int skewed(int layer, int expert) {
    return 1 + (expert * 7 + layer * 5) % 11;
}

}  // namespace

TEST_CASE("tokens dealt evenly, to all experts or to a subset, are no routing") {
    for (const int hit : {16, 6}) {
        Sample sample(8, 2, 16);
        for (int slot = 0; slot < 8; ++slot) {
            for (int layer = 0; layer < 2; ++layer) {
                for (int expert = 0; expert < hit; ++expert)
                    sample.at(slot, layer, expert) = 20 + slot + (expert < slot);
            }
        }
        CHECK(forced(sample).severity == Severity::warning);
        CHECK_THAT(forced(sample).message, Contains("100 % of the counts are in rows where every expert that is hit"));
    }
}

TEST_CASE("a difference of two in half of the rows is none of dealing evenly") {
    Sample sample(8, 1, 16);
    for (int slot = 0; slot < 8; ++slot) {
        for (int expert = 0; expert < 16; ++expert) sample.at(slot, 0, expert) = 20;
        sample.at(slot, 0, slot) += slot < 4 ? 2 : 0;  // four rows of 322, four of 320: less than half are flat
    }
    CHECK_THAT(forced(sample).message, !Contains("hit equally often"));
    sample.at(0, 0, 0) -= 1;
    CHECK_THAT(forced(sample).message, Contains("hit equally often"));
}

TEST_CASE("passes that do not scatter are no routing, passes drawn from the same shares are") {
    Sample same(8, 2, 16);
    for (int slot = 0; slot < 8; ++slot) {
        for (int layer = 0; layer < 2; ++layer) {
            for (int expert = 0; expert < 16; ++expert)
                same.at(slot, layer, expert) = 20 * (slot + 1) * skewed(layer, expert);
        }
    }
    CHECK_THAT(forced(same).message, Contains("the record slots differ less than drawing the same tokens again would"));
    CHECK(forced(drawn(8, 2, 16, 400, skewed)).code.empty());
}

TEST_CASE("layers that share one distribution are no routing, be it even or skewed") {
    CHECK_THAT(forced(drawn(8, 4, 24, 400, [](int, int) { return 1; })).message,
               Contains("all layers hit the same experts"));
    CHECK_THAT(forced(drawn(8, 4, 24, 400, [](int, int expert) { return skewed(0, expert); })).message,
               Contains("all layers hit the same experts"));
    CHECK(forced(drawn(8, 4, 24, 400, skewed)).code.empty());
    CHECK(forced(drawn(8, 3, 24, 400, [](int, int) { return 1; })).code.empty());  // three layers may be alike
    CHECK(forced(drawn(8, 4, 24, 90, [](int, int) { return 1; })).code.empty());   // 30 counts a cell tell too little
}

TEST_CASE("one pass in many copies is looked at once") {
    Sample sample(8, 1, 16);
    for (int slot = 0; slot < 8; ++slot) {
        for (int expert = 0; expert < 16; ++expert) sample.at(slot, 0, expert) = 100 * skewed(0, expert);
    }
    CHECK(forced(sample).code.empty());
}
