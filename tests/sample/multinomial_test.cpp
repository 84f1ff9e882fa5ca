#include "sample/multinomial.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

using namespace eplb;

namespace {

constexpr std::uint64_t one = std::uint64_t{1} << 32;

// Pearson's statistic of observed against expected frequencies.
double chi_square(const std::vector<double>& observed, const std::vector<double>& expected) {
    double sum = 0;
    for (std::size_t i = 0; i < observed.size(); ++i) {
        sum += (observed[i] - expected[i]) * (observed[i] - expected[i]) / expected[i];
    }
    return sum;
}

}  // namespace

TEST_CASE("no coin is tossed for nothing, and heads are at most the tosses") {
    Coins coins(1);
    CHECK(coins.heads(0) == 0);
    for (const std::int64_t tosses : {1, 5, 63, 64, 65, 1000}) {
        const std::int64_t heads = coins.heads(tosses);
        CHECK(heads >= 0);
        CHECK(heads <= tosses);
    }
}

TEST_CASE("half of a million coins show heads, to five standard deviations") {
    Coins coins(7);
    std::int64_t heads = 0;
    for (int i = 0; i < 10000; ++i) heads += coins.heads(100);
    CHECK(std::abs(static_cast<double>(heads) - 500000.0) < 5 * 500.0);
}

TEST_CASE("a binomial draw is certain where its probability is 0 or 1") {
    Coins coins(3);
    CHECK(binomial(coins, 1000, 0) == 0);
    CHECK(binomial(coins, 1000, one) == 1000);
    CHECK(binomial(coins, 0, one / 3) == 0);
}

TEST_CASE("binomial draws of five trials follow the binomial distribution") {
    constexpr int draws = 200000;
    for (const double p : {0.5, 0.3, 0.9, 1.0 / 7}) {
        Coins coins(11);
        std::vector<double> observed(6), expected(6);
        for (int i = 0; i < draws; ++i) {
            observed[static_cast<std::size_t>(binomial(coins, 5, static_cast<std::uint64_t>(p * one)))] += 1;
        }
        constexpr std::array<double, 6> ways = {1, 5, 10, 10, 5, 1};
        for (std::size_t k = 0; k < 6; ++k) {
            expected[k] = draws * ways[k] * std::pow(p, k) * std::pow(1 - p, 5.0 - static_cast<double>(k));
        }
        CHECK(chi_square(observed, expected) < 20.5);  // 5 degrees of freedom: exceeded once in a thousand
    }
}

TEST_CASE("large binomial draws have the mean and the variance of the distribution") {
    constexpr int draws = 4000;
    constexpr double trials = 100000, p = 0.037;
    Coins coins(5);
    double sum = 0, squares = 0;
    for (int i = 0; i < draws; ++i) {
        const auto value = static_cast<double>(binomial(coins, 100000, static_cast<std::uint64_t>(p * one)));
        sum += value;
        squares += value * value;
    }
    const double mean = sum / draws, variance = squares / draws - mean * mean, wanted = trials * p * (1 - p);
    CHECK(std::abs(mean - trials * p) < 5 * std::sqrt(wanted / draws));
    CHECK(std::abs(variance / wanted - 1) < 5 * std::sqrt(2.0 / draws));
}

TEST_CASE("a multinomial draw follows its weights and loses no trial") {
    const std::vector<std::uint32_t> weights = {1, 2, 0, 5, 4};
    constexpr std::int64_t trials = 120000;
    Coins coins(2);
    std::vector<std::int64_t> counts(5);
    bounded_multinomial(coins, trials, trials, weights, counts);
    CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == trials);
    CHECK(counts[2] == 0);
    const std::vector<double> observed = {double(counts[0]), double(counts[1]), double(counts[3]), double(counts[4])};
    CHECK(chi_square(observed, {10000, 20000, 50000, 40000}) < 16.3);  // 3 degrees of freedom: once in a thousand
}

TEST_CASE("no count of a multinomial draw exceeds the limit, and the rest goes to the others") {
    const std::vector<std::uint32_t> weights = {1000000, 1, 1, 1};
    Coins coins(2);
    std::vector<std::int64_t> counts(4);
    bounded_multinomial(coins, 200, 100, weights, counts);
    CHECK(counts[0] == 100);
    CHECK(counts[1] + counts[2] + counts[3] == 100);
    bounded_multinomial(coins, 400, 100, weights, counts);
    CHECK(counts == std::vector<std::int64_t>{100, 100, 100, 100});
}

TEST_CASE("experts of weight zero are used when nobody else has room") {
    const std::vector<std::uint32_t> weights = {7, 0, 0};
    Coins coins(2);
    std::vector<std::int64_t> counts(3);
    bounded_multinomial(coins, 30, 10, weights, counts);
    CHECK(counts == std::vector<std::int64_t>{10, 10, 10});
}
