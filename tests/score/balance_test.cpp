#include "score/balance.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "dispatch/model.hpp"

using namespace eplb;

namespace {

std::vector<ExpertId> row_of(const std::vector<int>& experts) {
    std::vector<ExpertId> row;
    for (const int expert : experts) row.push_back(ExpertId{expert});
    return row;
}

// Balance under the even split.
std::optional<LayerBalance> even_balance(const LayerCounts& counts, const std::vector<int>& row, int ranks) {
    const Layout layout({1, counts.experts, ranks, static_cast<int>(row.size()) / ranks}, row_of(row));
    const ReplicaShares shares = replica_shares(find_dispatch_model("even"), layout, {});
    return balance(counts, layout.row(0), shares.row(0), ranks);
}

}  // namespace

TEST_CASE("loads 80,60,10,10 on 2 ranks x 3 slots: 0,2,3 | 1,2,3 carries 90 and 70") {
    const LayerCounts counts{1, 4, {80, 60, 10, 10}};
    const auto result = even_balance(counts, {0, 2, 3, 1, 2, 3}, 2);
    CHECK(result->window == 1.125);
    CHECK(result->step == 1.125);
    CHECK(result->worst_rank == 0);
    // Experts 0 and 1 replicated: 40+30+10 on either rank.
    CHECK(even_balance(counts, {0, 1, 2, 0, 1, 3}, 2)->window == 1.0);
}

TEST_CASE("two steps that burden opposite ranks are balanced as a window and twice too slow as steps") {
    const LayerCounts counts{2, 2, {100, 0, 0, 100}};
    const auto result = even_balance(counts, {0, 1}, 2);
    CHECK(result->window == 1.0);
    CHECK(result->step == 2.0);
    CHECK(result->worst_rank == 0);  // both carry 100: the lower rank
}

TEST_CASE("a step counts by its size: a large even step outweighs a small uneven one") {
    // Step 0: 6 and 2, max 6, mean 4. Step 1: 48 and 48. (6 + 48) / (4 + 48) = 54 / 52.
    const LayerCounts counts{2, 2, {6, 2, 48, 48}};
    CHECK(even_balance(counts, {0, 1}, 2)->step == 54.0 / 52.0);
}

TEST_CASE("a duplicate on a rank counts as a replica of its own, and its load stays on the rank") {
    // Expert 0 twice on rank 0: 30 + 30 + 0 against 20 on rank 1.
    const LayerCounts counts{1, 2, {60, 20}};
    const auto result = even_balance(counts, {0, 0, 1, 1}, 2);
    CHECK(result->window == 60.0 / 40.0);
}

TEST_CASE("unequal shares put the load where the shares say") {
    const LayerCounts counts{1, 2, {80, 20}};
    const auto row = row_of({0, 1, 0, 1});
    // Expert 0: 3/4 on rank 0; expert 1: all on rank 1. Loads 60 and 40.
    const std::vector<double> shares{0.75, 0, 0.25, 1};
    const auto result = balance(counts, row, shares, 2);
    CHECK(result->window == 1.2);
    const LayerLoads loads = layer_loads(counts, row, shares, 2);
    CHECK(loads.rank_total == std::vector<double>{60, 40});
    CHECK(loads.step_max == std::vector<double>{60});
    CHECK(loads.step_mean == std::vector<double>{50});
}

TEST_CASE("a layer without counts has no balance") {
    CHECK_FALSE(even_balance({2, 2, {0, 0, 0, 0}}, {0, 1}, 2).has_value());
    CHECK_FALSE(even_balance({0, 2, {}}, {0, 1}, 2).has_value());
}

TEST_CASE("one rank is always balanced") {
    const auto result = even_balance({2, 3, {5, 0, 1, 0, 9, 0}}, {0, 1, 2}, 1);
    CHECK(result->step == 1.0);
    CHECK(result->window == 1.0);
}

TEST_CASE("equal loads are balanced exactly, whatever their sum loses in rounding") {
    // (0.1 + 0.1 + 0.1) / 3 is above 0.1 in doubles.
    const LayerCounts counts{1, 1, {1}};
    const std::vector<ExpertId> row(3, ExpertId{0});
    const std::vector<double> shares(3, 0.1);
    REQUIRE((0.1 + 0.1 + 0.1) / 3 > 0.1);
    const auto value = balance(counts, row, shares, 3);
    CHECK(value->step == 1.0);
    CHECK(value->window == 1.0);
}
