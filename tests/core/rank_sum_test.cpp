#include "core/rank_sum.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "core/counts.hpp"
#include "core/error.hpp"

using namespace eplb;

namespace {

// One layer, one expert: a value for each record slot; the sequence may be shorter.
struct Share {
    Tensor counts;
    WindowFacts facts;
    Share(std::vector<std::int64_t> values, std::vector<std::int64_t> sequence) {
        const int slots = static_cast<int>(values.size());
        counts = make_count_tensor(std::move(values), slots, 1, 1);
        facts.sequence = std::move(sequence);
    }
    RankShare share() const { return {&counts, facts.sequence.empty() ? nullptr : &facts}; }
};

std::vector<std::int64_t> values_of(const Tensor& tensor) {
    const Counts counts({tensor});
    std::vector<std::int64_t> values(static_cast<std::size_t>(counts.record_slots()));
    for (int slot = 0; slot < counts.record_slots(); ++slot) {
        counts.read_row(slot, 0, std::span(values).subspan(static_cast<std::size_t>(slot), 1));
    }
    return values;
}

using Slots = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("without pass numbers record slots at the same place are one pass") {
    const Share a({1, 2, 3}, {}), b({10, 20, 30}, {});
    const std::vector shares{a.share(), b.share()};
    const CommonPasses passes = common_passes(shares);
    CHECK(passes.agree);
    CHECK(passes.record_slots == Slots{{0, 1, 2}, {0, 1, 2}});
    CHECK(passes.left_out == std::vector{0, 0});
    CHECK(values_of(sum_of_ranks(shares, passes)) == std::vector<std::int64_t>{11, 22, 33});
}

TEST_CASE("without pass numbers nothing says which pass of a shorter file is which") {
    const Share a({1, 2, 3}, {}), b({10, 20}, {}), numbered({7, 8}, {4, 5});
    CHECK_FALSE(common_passes(std::vector{a.share(), b.share()}).agree);
    CHECK_FALSE(common_passes(std::vector{a.share(), numbered.share()}).agree);
    CHECK(common_passes(std::vector{b.share(), numbered.share()}).agree);
}

TEST_CASE(
    "passes that a rank skipped or stopped before are left out on the others, and the rest is matched by number") {
    const Share a({1, 2, 3, 4}, {5, 6, 7, 8}), b({10, 20, 30}, {5, 7, 8}), c({100, 200, 300, 400}, {4, 5, 6, 7});
    const std::vector shares{a.share(), b.share(), c.share()};
    const CommonPasses passes = common_passes(shares);
    CHECK(passes.agree);
    CHECK(passes.sequence == std::vector<std::int64_t>{5, 7});
    CHECK(passes.record_slots == Slots{{0, 2}, {0, 1}, {1, 3}});
    CHECK(passes.left_out == std::vector{2, 1, 2});
    CHECK(values_of(sum_of_ranks(shares, passes)) == std::vector<std::int64_t>{211, 423});
}

TEST_CASE("equal pass numbers keep the record slots that no pass filled") {
    const Share a({1, 2, 0}, {3, 4}), b({10, 20, 0}, {3, 4});
    const CommonPasses passes = common_passes(std::vector{a.share(), b.share()});
    CHECK(passes.record_slots == Slots{{0, 1, 2}, {0, 1, 2}});
    const Share shorter({10, 20}, {3, 4});
    CHECK(common_passes(std::vector{a.share(), shorter.share()}).record_slots == Slots{{0, 1}, {0, 1}});
}

TEST_CASE("windows of other times have no pass in common") {
    const Share a({1, 2}, {3, 4}), b({10, 20}, {5, 6});
    const CommonPasses passes = common_passes(std::vector{a.share(), b.share()});
    CHECK(passes.sequence.empty());
    CHECK(passes.left_out == std::vector{2, 2});
}

TEST_CASE("a sum above 2^63 - 1 is an error with its place") {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const Share a({1, most}, {}), one({0, 1}, {}), none({0, 0}, {});
    const std::vector over{a.share(), one.share()}, fits{a.share(), none.share()};
    CHECK_THROWS_WITH(sum_of_ranks(over, common_passes(over)), Catch::Contains("record slot 1, layer 0, expert 0"));
    CHECK(values_of(sum_of_ranks(fits, common_passes(fits))) == std::vector<std::int64_t>{1, most});
}
