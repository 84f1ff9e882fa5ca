#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "core/layout.hpp"
#include "fit/pair_replicas.hpp"
#include "fit/place.hpp"
#include "fit/random_counts.hpp"
#include "fit/replicate.hpp"
#include "fit/swap.hpp"
#include "fit/swap_pairs.hpp"
#include "fit/window_anneal.hpp"

using namespace eplb;

namespace {

std::vector<ExpertId> numbered(int slots) {
    std::vector<ExpertId> row;
    for (int expert = 0; expert < slots; ++expert) row.push_back(ExpertId{expert});
    return row;
}

double largest_load(std::span<const ExpertId> row, std::span<const double> replica_loads, int ranks) {
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    double largest = 0;
    for (std::size_t first = 0; first < row.size(); first += slots) {
        double load = 0;
        for (std::size_t slot = first; slot < first + slots; ++slot) {
            load += replica_loads[static_cast<std::size_t>(row[slot].value)];
        }
        largest = std::max(largest, load);
    }
    return largest;
}

bool no_rank_holds_an_expert_twice(std::span<const ExpertId> row, int ranks) {
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    for (std::size_t first = 0; first < row.size(); first += slots) {
        const auto rank = row.subspan(first, slots);
        if (std::set<ExpertId>(rank.begin(), rank.end()).size() != slots) return false;
    }
    return true;
}

struct Start {
    Geometry geometry;
    std::vector<std::int64_t> totals;
    std::vector<double> loads;
    std::vector<ExpertId> row;
};

Start random_start(Random& random) {
    Start start;
    start.geometry = test::random_geometry(random, 12, 8);
    start.totals = test::random_weights(random, start.geometry.experts);
    start.totals[0] += start.totals[0] == 0 ? 1 : 0;
    const auto replicas =
        replicate(std::span<const std::int64_t>(start.totals), start.geometry.ranks, start.geometry.physical_slots());
    start.loads = even_replica_loads(start.totals, replicas);
    // Placed by other loads, so that there is something to do.
    std::vector<double> other(start.loads.size());
    for (double& load : other) load = random.unit();
    start.row = place(other, replicas, start.geometry.ranks, start.geometry.slots_per_rank);
    return start;
}

}  // namespace

TEST_CASE("an exchange balances two ranks when one does") {
    const std::vector<double> loads{7, 5, 3, 1};  // 12 and 4: exchanging 5 for 1, or 7 for 3, gives 8 and 8
    auto row = numbered(4);
    CHECK(swap_down(row, loads, 2, 0) == 8);
    CHECK(largest_load(row, loads, 2) == 8);
}

TEST_CASE("exchanges stop at the target") {
    const std::vector<double> loads{7, 5, 3, 1};
    auto row = numbered(4);
    CHECK(swap_down(row, loads, 2, 12) == 12);
    CHECK(row == numbered(4));
}

TEST_CASE("an exchange that would put an expert twice on a rank is not made") {
    // Ranks 0: {0, 1} = 9 and 5; 1: {0, 2} = 9 and 1. Only 1 for 2 and 1 for 0 or 0 for 2 are possible exchanges of
    // unequal loads; 0 is on both ranks, which leaves 1 for 2, and that helps nothing.
    std::vector<ExpertId> row{{0}, {1}, {0}, {2}};
    CHECK(swap_down(row, std::vector<double>{9, 5, 1}, 2, 0) == 14);
    CHECK(no_rank_holds_an_expert_twice(row, 2));
}

TEST_CASE("two for two balances what no single exchange does") {
    // 9 + 5 + 20 + 20 = 54 and 12 + 1 + 30 + 9 = 52: no difference of two replicas is 1, but 9 + 5 - 12 - 1 is.
    const std::vector<double> loads{9, 5, 20, 20, 12, 1, 30, 9};
    auto row = numbered(8);
    CHECK(swap_down(row, loads, 2, 0) == 54);
    CHECK(swap_pairs_down(row, loads, 2, 0) == 53);
    CHECK(largest_load(row, loads, 2) == 53);
}

TEST_CASE("exchanges keep rows legal and never raise the busiest rank, and pairs reach at least as low") {
    Random random(50);
    for (int round = 0; round < 3000; ++round) {
        const Start start = random_start(random);
        const int ranks = start.geometry.ranks;
        const double before = largest_load(start.row, start.loads, ranks);
        INFO("round " << round << ": " << describe(start.geometry));
        auto single = start.row;
        const double by_one = swap_down(single, start.loads, ranks, 0);
        REQUIRE(by_one == largest_load(single, start.loads, ranks));
        auto pairs = start.row;
        const double by_two = swap_pairs_down(pairs, start.loads, ranks, 0);
        REQUIRE(by_two == largest_load(pairs, start.loads, ranks));
        REQUIRE(by_one <= before);
        REQUIRE(by_two <= by_one);
        for (const auto& row : {single, pairs}) {
            REQUIRE(no_rank_holds_an_expert_twice(row, ranks));
            REQUIRE(replica_counts(row, start.geometry.experts) == replica_counts(start.row, start.geometry.experts));
        }
    }
}

TEST_CASE("annealed rows are legal, the best one is no worse than the start, and the seed decides") {
    Random random(51);
    int differ = 0;
    for (int round = 0; round < 500; ++round) {
        const Start start = random_start(random);
        const int ranks = start.geometry.ranks, experts = start.geometry.experts;
        const auto anneal = [&](std::uint64_t seed) {
            return anneal_window(start.row, start.totals, ranks, 0, 500, seed);
        };
        const AnnealedRows rows = anneal(1);
        INFO("round " << round << ": " << describe(start.geometry));
        for (const auto& row : {rows.best, rows.last}) {
            REQUIRE(no_rank_holds_an_expert_twice(row, ranks));
            const auto replicas = replica_counts(row, experts);
            REQUIRE(*std::min_element(replicas.begin(), replicas.end()) >= 1);
        }
        const auto loads = even_replica_loads(start.totals, replica_counts(rows.best, experts));
        REQUIRE(largest_load(rows.best, loads, ranks) <= largest_load(start.row, start.loads, ranks) * (1 + 1e-12));
        REQUIRE(anneal(1).last == rows.last);
        differ += anneal(2).last == rows.last ? 0 : 1;
    }
    CHECK(differ > 250);
}

TEST_CASE("replica counts for pairs stay possible and never make the largest pair larger") {
    // Heaviest with lightest, from scratch.
    const auto largest_pair = [](std::span<const std::int64_t> totals, std::span<const int> replicas) {
        std::vector<double> loads;
        for (std::size_t e = 0; e < totals.size(); ++e) {
            loads.insert(loads.end(), static_cast<std::size_t>(replicas[e]),
                         static_cast<double>(totals[e]) / replicas[e]);
        }
        std::sort(loads.begin(), loads.end());
        double largest = 0;
        for (std::size_t i = 0; i < loads.size(); ++i) {
            largest = std::max(largest, loads[i] + loads[loads.size() - 1 - i]);
        }
        return largest;
    };
    Random random(52);
    int improved = 0;
    for (int round = 0; round < 500; ++round) {
        const int ranks = 2 + static_cast<int>(random.below(20));
        const int experts = 2 + static_cast<int>(random.below(static_cast<std::uint32_t>(2 * ranks - 1)));
        auto totals = test::random_weights(random, experts);
        totals[0] += totals[0] == 0 ? 1 : 0;
        const auto start = replicate(std::span<const std::int64_t>(totals), ranks, 2 * ranks);
        const auto found = anneal_pair_replicas(totals, start, ranks, 300, 1);
        INFO("round " << round << ": " << experts << " experts, " << ranks << " ranks");
        REQUIRE(std::accumulate(found.begin(), found.end(), 0) == 2 * ranks);
        REQUIRE(*std::min_element(found.begin(), found.end()) >= 1);
        REQUIRE(*std::max_element(found.begin(), found.end()) <= ranks);
        REQUIRE(largest_pair(totals, found) <= largest_pair(totals, start) * (1 + 1e-12));
        improved += largest_pair(totals, found) < largest_pair(totals, start) * (1 - 1e-9) ? 1 : 0;
    }
    CHECK(improved > 50);
}
