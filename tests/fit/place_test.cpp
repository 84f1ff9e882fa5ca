#include "fit/place.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "core/error.hpp"
#include "core/layout.hpp"
#include "fit/order.hpp"
#include "fit/random_counts.hpp"
#include "rows.hpp"

using namespace eplb;
using eplb::test::row_of;

namespace {

bool no_rank_holds_an_expert_twice(const std::vector<ExpertId>& row, int slots_per_rank) {
    for (std::size_t first = 0; first < row.size(); first += static_cast<std::size_t>(slots_per_rank)) {
        const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
        if (std::set<ExpertId>(begin, begin + slots_per_rank).size() != static_cast<std::size_t>(slots_per_rank)) {
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE("descending order puts equal values in id order") {
    const std::vector<double> values{1, 3, 0, 3, 2, 0, 1};
    CHECK(descending_order(values) == std::vector<int>{1, 3, 4, 0, 6, 2, 5});
}

TEST_CASE("descending order agrees with a comparison sort, for close values and huge ranges") {
    Random random(4);
    for (const std::size_t size : {1u, 2u, 17u, 256u, 2048u, 3000u}) {
        for (const double spread : {0.0, 1e-12, 1e-3, 1.0}) {
            std::vector<double> values(size);
            for (double& value : values) value = 1 + spread * random.unit();
            if (spread == 1.0) {
                for (double& value : values) value = value < 1.1 ? 0 : value < 1.2 ? 1e-300 * value : value * 1e15;
            }
            std::vector<int> expected(size);
            std::iota(expected.begin(), expected.end(), 0);
            std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) {
                return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
            });
            REQUIRE(descending_order(values) == expected);
        }
    }
}

TEST_CASE("the heaviest replica goes to the lightest rank, lowest rank first") {
    // 40 and 30 open the ranks; 20 joins 30, 10 the rest: 50 and 50.
    CHECK(place(std::vector<double>{40, 30, 20, 10}, std::vector<int>{1, 1, 1, 1}, 2, 2) == row_of({0, 3, 1, 2}));
}

TEST_CASE("replicas of one expert go to different ranks even when one rank is far lighter") {
    // Loads 9, 1, 1, 1 on 2 x 3: without the rule both replicas of expert 1 would join rank 1.
    const auto row = place(std::vector<double>{9, 1, 0.5, 0.25, 0}, std::vector<int>{1, 2, 1, 1, 1}, 2, 3);
    CHECK(no_rank_holds_an_expert_twice(row, 3));
}

TEST_CASE("an exchange makes room when the only free slot is on a rank that holds the expert") {
    // Rank 0 takes the 100; 3, 2 and the first 1 fill up rank 1; expert 4 then has both free slots on rank 0.
    const std::vector<double> loads{100, 3, 2, 1, 0.5};
    const std::vector<int> replicas{1, 1, 1, 1, 2};
    const auto row = place(loads, replicas, 2, 3);
    CHECK(no_rank_holds_an_expert_twice(row, 3));
    CHECK(replica_counts(row, 5) == replicas);
    // Moving 3, 2 or 1 to rank 0 gives it 103.5, 102.5 or 101.5: the last is best.
    CHECK(row == row_of({0, 4, 3, 1, 2, 4}));
}

TEST_CASE("counts that do not fill the ranks are refused") {
    CHECK_THROWS_AS(place(std::vector<double>{1, 1}, std::vector<int>{1, 2}, 2, 2), Error);
    CHECK_THROWS_AS(place(std::vector<double>{1, 1}, std::vector<int>{1, 3}, 2, 2), Error);
    CHECK_THROWS_AS(place(std::vector<double>{1, 1}, std::vector<int>{0, 4}, 4, 1), Error);
    CHECK_THROWS_AS(place(std::vector<double>{1}, std::vector<int>{2, 2}, 2, 2), Error);
}

TEST_CASE("every replica is placed, ranks are full and distinct, for 4000 random shapes and any replica counts") {
    Random random(5);
    for (int round = 0; round < 4000; ++round) {
        const Geometry geometry = test::random_geometry(random, 12, 8);
        std::vector<int> replicas(static_cast<std::size_t>(geometry.experts), 1);
        for (int rest = geometry.redundant_total(); rest > 0;) {  // anything but what the greedy would choose
            const auto e = random.below(static_cast<std::uint32_t>(geometry.experts));
            const int more = std::min({rest, geometry.ranks - replicas[e], 1 + static_cast<int>(random.below(12))});
            replicas[e] += more;
            rest -= more;
        }
        const auto weights = test::random_weights(random, geometry.experts);
        const auto row =
            place(even_replica_loads(weights, replicas), replicas, geometry.ranks, geometry.slots_per_rank);
        INFO("round " << round << ": " << describe(geometry));
        REQUIRE(replica_counts(row, geometry.experts) == replicas);
        REQUIRE(no_rank_holds_an_expert_twice(row, geometry.slots_per_rank));
    }
}
