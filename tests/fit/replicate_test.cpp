#include "fit/replicate.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "core/wide.hpp"
#include "fit/random_counts.hpp"

using namespace eplb;

namespace {

// The greedy as its definition says it: one replica at a time to the first largest quotient.
std::vector<int> plain_greedy(std::span<const std::int64_t> weights, int ranks, int total_slots) {
    std::vector<int> counts(weights.size(), 1);
    for (auto given = static_cast<int>(weights.size()); given < total_slots; ++given) {
        std::size_t best = weights.size();
        for (std::size_t e = 0; e < weights.size(); ++e) {
            if (counts[e] == ranks) continue;
            if (best == weights.size() || ratio_greater(weights[e], counts[e], weights[best], counts[best])) best = e;
        }
        ++counts[best];
    }
    return counts;
}

std::vector<int> plain_greedy(std::span<const double> weights, int ranks, int total_slots) {
    std::vector<int> counts(weights.size(), 1);
    for (auto given = static_cast<int>(weights.size()); given < total_slots; ++given) {
        std::size_t best = weights.size();
        for (std::size_t e = 0; e < weights.size(); ++e) {
            if (counts[e] == ranks) continue;
            if (best == weights.size() || weights[e] / counts[e] > weights[best] / counts[best]) best = e;
        }
        ++counts[best];
    }
    return counts;
}

std::vector<int> replicas_of(std::vector<std::int64_t> weights, int ranks, int total_slots) {
    return replicate(std::span<const std::int64_t>(weights), ranks, total_slots);
}

}  // namespace

TEST_CASE("replicas go to the largest quotient, and to the smaller id when quotients are equal") {
    CHECK(replicas_of({80, 60, 10, 10}, 2, 6) == std::vector<int>{2, 2, 1, 1});
    CHECK(replicas_of({60, 60, 60}, 3, 4) == std::vector<int>{2, 1, 1});
    CHECK(replicas_of({60, 120, 60}, 3, 5) == std::vector<int>{2, 2, 1});  // 120; then 60 three times, expert 0 first
}

TEST_CASE("no expert gets more replicas than there are ranks") {
    CHECK(replicas_of({1'000'000, 1, 1}, 2, 4) == std::vector<int>{2, 1, 1});
    CHECK(replicas_of({1'000'000, 1, 1}, 3, 6) == std::vector<int>{3, 2, 1});
}

TEST_CASE("experts without load share the rest by id") {
    CHECK(replicas_of({0, 0, 0}, 2, 5) == std::vector<int>{2, 2, 1});
}

TEST_CASE("quotients that differ by one in 2^63 are told apart") {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK(replicas_of({most - 1, most}, 2, 3) == std::vector<int>{1, 2});
    CHECK(replicas_of({most, most - 1}, 2, 3) == std::vector<int>{2, 1});
}

TEST_CASE("slots that experts and ranks cannot fill are refused") {
    CHECK_THROWS_AS(replicas_of({1, 1}, 2, 1), Error);
    CHECK_THROWS_AS(replicas_of({1, 1}, 2, 5), Error);
}

TEST_CASE("replicate gives exactly the counts of the plain greedy") {
    Random random(20);
    for (int round = 0; round < 4000; ++round) {
        const int ranks = 1 + static_cast<int>(random.below(40));
        const int experts = 1 + static_cast<int>(random.below(round % 20 == 0 ? 300 : 40));
        const int extra = static_cast<int>(random.below(static_cast<std::uint32_t>(experts * (ranks - 1)) + 1));
        const int total = experts + (experts > 40 || random.below(2) == 0 ? std::min(extra, 64) : extra);
        const std::vector<std::int64_t> counts = test::random_weights(random, experts);
        INFO("round " << round << ": " << experts << " experts, " << ranks << " ranks, " << total << " slots");
        REQUIRE(replicate(std::span<const std::int64_t>(counts), ranks, total) == plain_greedy(counts, ranks, total));
        std::vector<double> weights;
        for (const std::int64_t count : counts) weights.push_back(static_cast<double>(count) * random.unit() * 1e-9);
        REQUIRE(replicate(std::span<const double>(weights), ranks, total) == plain_greedy(weights, ranks, total));
    }
}

TEST_CASE("weights of every magnitude are replicated as the plain greedy does") {
    const std::vector<double> weights{1e300, 1e-300, 5e-324, 0, 3e299, 1e-30, 2e-39};
    for (int total = 7; total <= 7 * 6; ++total) {
        REQUIRE(replicate(std::span<const double>(weights), 6, total) == plain_greedy(weights, 6, total));
    }
}
