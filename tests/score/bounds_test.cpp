#include "score/bounds.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "score/best_window.hpp"

using namespace eplb;

namespace {

double bound_of(std::vector<std::int64_t> totals, int ranks, int slots_per_rank) {
    return window_lower_bound(totals, ranks, slots_per_rank);
}

std::vector<std::int64_t> draw_totals(Random& random, int experts) {
    std::vector<std::int64_t> totals(static_cast<std::size_t>(experts));
    const auto kind = random.below(4);
    for (std::int64_t& total : totals) {
        total = random.below(kind == 0 ? 4 : 200);
        if (kind == 2) total = total * total * total;
    }
    if (kind == 3) totals[0] = 5000;
    return totals;
}

}  // namespace

TEST_CASE("the bound of a problem that can be balanced perfectly is 1") {
    CHECK(bound_of({80, 60, 10, 10}, 2, 3) == 1.0);
    CHECK(bound_of({0, 0, 0}, 2, 2) == 1.0);
    CHECK(bound_of({std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()}, 2, 2) == 1.0);
}

TEST_CASE("one expert that cannot be split bounds the largest load") {
    // Without redundancy the 90 lies on one rank with one more expert, at best the 1: 91 against a mean of 50.
    CHECK(bound_of({90, 1, 4, 5}, 2, 2) == Approx(91.0 / 50).epsilon(1e-11));
}

TEST_CASE("the heaviest experts share few ranks when there is little redundancy") {
    // 3 ranks x 1 slot, no redundancy: 6, 5, 1 lie alone. Two ranks hold 6 and 5; one of them carries 6; the mean is 4.
    CHECK(bound_of({6, 5, 1}, 3, 1) == Approx(6.0 / 4).epsilon(1e-11));
}

TEST_CASE("replicas are whole: 3 slots for two equal experts leave one expert whole") {
    // 3 ranks x 1 slot, loads 6 and 6: one has one replica of 6; the mean is 4.
    CHECK(bound_of({6, 6}, 3, 1) == Approx(6.0 / 4).epsilon(1e-11));
}

TEST_CASE("with two slots a rank, heavy replicas without light partners raise the bound") {
    // 12 experts of 10 on 7 ranks x 2: two are split in halves of 5. Of 14 replicas, 10 are whole and 4 are halves, so
    // some rank has two whole ones: 20. Mean 120 / 7; no other bound sees it.
    const std::vector<std::int64_t> totals(12, 10);
    CHECK(window_lower_bound(totals, 7, 2, PairBound::skip) == Approx(1.0).epsilon(1e-9));
    CHECK(window_lower_bound(totals, 7, 2, PairBound::include) == Approx(20.0 / (120.0 / 7)).epsilon(1e-4));
}

TEST_CASE("no bound is above the optimum of tiny problems, and on average they are close") {
    Random random(3);
    double sum_of_gaps = 0;
    int problems = 0;
    for (int round = 0; round < 600; ++round) {
        const int ranks = 1 + static_cast<int>(random.below(4)), slots = 1 + static_cast<int>(random.below(3));
        const int most = ranks * slots;
        const int experts =
            std::max(most - 5, slots + static_cast<int>(random.below(static_cast<std::uint32_t>(most - slots + 1))));
        const auto totals = draw_totals(random, experts);
        std::int64_t total = 0;
        for (const std::int64_t count : totals) total += count;
        if (total == 0) continue;
        const double optimum = static_cast<double>(test::BestWindow(totals, ranks, slots).largest_load()) /
                               test::BestWindow::unit / (static_cast<double>(total) / ranks);
        const double bound = window_lower_bound(totals, ranks, slots);
        INFO("round " << round << ": " << experts << " experts, " << ranks << " ranks x " << slots << " slots");
        REQUIRE(bound <= optimum * (1 + 1e-15));
        REQUIRE(bound >= 1);
        sum_of_gaps += optimum / bound - 1;
        ++problems;
    }
    CHECK(sum_of_gaps / problems < 0.05);
}
