#include "fit/anneal.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <span>

#include "fit/acceptance.hpp"
#include "fit/reproducible.hpp"
#include "fit/step_counts.hpp"

using namespace eplb;

TEST_CASE("logarithms and quarter powers agree with the C library") {
    for (const double x : {1e-300, 1e-9, 0.3, 0.70710678, 0.9999999, 1.0, 1.5, 2.0, 3e7, 1e300}) {
        CHECK(natural_log(x) == Approx(std::log(x)).epsilon(1e-14).margin(1e-15));
    }
    for (int quarters = 0; quarters <= 9; ++quarters) {
        CHECK(quarter_power(0.37, quarters) == Approx(std::pow(0.37, quarters / 4.0)).epsilon(1e-14));
        CHECK(quarter_power(0, quarters) == (quarters == 0 ? 1 : 0));
    }
}

TEST_CASE("a quarter of the exponential variates lie above ln 4") {
    Random random(1);
    int above = 0;
    for (int i = 0; i < 40000; ++i) above += exponential_variate(random) > 1.3862944F ? 1 : 0;
    CHECK(above == Approx(10000).margin(300));  // 3.5 standard deviations
}

TEST_CASE("the anneal cools from the first to the last temperature in its stages") {
    const Cooling cooling;
    CHECK(std::pow(cooling.factor(), Cooling::stages) == Approx(cooling.last / cooling.first));
}

TEST_CASE("an anneal never ends above its start and keeps the row legal") {
    Random random(2);
    for (int round = 0; round < 60; ++round) {
        const int ranks = 1 + static_cast<int>(random.below(8)), slots = 1 + static_cast<int>(random.below(6));
        const int experts =
            slots + static_cast<int>(random.below(static_cast<std::uint32_t>(ranks * slots - slots + 1)));
        const auto counts = test::bursty_counts(random, static_cast<int>(random.below(20)), experts);
        const auto start = test::random_row(random, experts, ranks, slots);
        AnnealOptions options;
        options.work = 200'000;
        options.replica_share = round % 2 == 0 ? 0.05 : 0;
        options.seed = static_cast<std::uint64_t>(round);
        const auto row = anneal(slot_shares(counts, ranks), start, ranks, options);
        CHECK(test::judged_step(counts, row, ranks) <= test::judged_step(counts, start, ranks) + 1e-5);
        for (const int replicas : replica_counts(row, experts)) CHECK(replicas >= 1);
        for (int rank = 0; rank < ranks; ++rank) {
            const auto held =
                std::span(row).subspan(static_cast<std::size_t>(rank * slots), static_cast<std::size_t>(slots));
            CHECK(std::set<ExpertId>(held.begin(), held.end()).size() == held.size());
        }
        if (options.replica_share == 0) CHECK(replica_counts(row, experts) == replica_counts(start, experts));
    }
}

TEST_CASE("two experts that peak together part ways") {
    // Sums say that {0, 1} | {2, 3} is balanced; but 0 and 1 peak in one record slot, 2 and 3 in the other.
    LayerCounts counts{2, 4, {10, 10, 0, 0, 0, 0, 10, 10}};
    const std::vector<ExpertId> start{{0}, {1}, {2}, {3}};
    REQUIRE(test::judged_step(counts, start, 2) == 2.0);
    AnnealOptions options;
    options.work = 100'000;
    const auto row = anneal(slot_shares(counts, 2), start, 2, options);
    CHECK(test::judged_step(counts, row, 2) == 1.0);
}
