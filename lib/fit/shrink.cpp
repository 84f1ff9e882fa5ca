#include "fit/shrink.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "fit/reproducible.hpp"

namespace eplb {
namespace {

// Shares and weights are read as they lie, eight record slots of an expert at a time, and summed in eight lanes that
// are added in one order at the end.
using Sums = std::array<double, lane_count>;

double total_of(const Sums& sums) {
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

std::span<const Lanes> row_of(const SlotShares& shares, std::size_t expert) {
    const auto vectors = static_cast<std::size_t>(shares.vectors);
    return {shares.values.data() + expert * vectors, vectors};
}

double weighted_sum(const SlotShares& shares, std::size_t expert) {
    Sums sums{};
    const auto row = row_of(shares, expert);
    for (std::size_t v = 0; v < row.size(); ++v) {
        for (std::size_t lane = 0; lane < lane_count; ++lane) {
            sums[lane] +=
                static_cast<double>(shares.weights[v].values[lane]) * static_cast<double>(row[v].values[lane]);
        }
    }
    return total_of(sums);
}

double weighted_squares(const SlotShares& shares, std::size_t expert, double mean) {
    Sums sums{};
    const auto row = row_of(shares, expert);
    for (std::size_t v = 0; v < row.size(); ++v) {
        for (std::size_t lane = 0; lane < lane_count; ++lane) {
            const double deviation = static_cast<double>(row[v].values[lane]) - mean;
            sums[lane] += static_cast<double>(shares.weights[v].values[lane]) * deviation * deviation;
        }
    }
    return total_of(sums);
}

}  // namespace

std::vector<double> mean_shares(const SlotShares& shares) {
    std::vector<double> mean(static_cast<std::size_t>(shares.experts));
    for (std::size_t e = 0; e < mean.size(); ++e) mean[e] = weighted_sum(shares, e);
    return mean;
}

double shrink_factor(const SlotShares& shares, std::span<const int> replicas, int ranks, double sharpness,
                     double predictability, double mean_inverse_total) {
    // A priori the variance of a share is 0.3 of its squared mean, a belief worth half a degree of freedom; the
    // variance that follows for an expert is mixed with the one seen as if it came from four. docs/theory.md, "The
    // guard".
    constexpr double prior_spread = 0.3, prior_freedom = 0.5, variance_freedom = 4;
    double squares = 0;
    for (int t = 0; t < shares.slots; ++t) {
        const auto weight = static_cast<double>(shares.weight(t));
        squares += weight * weight;
    }
    if (squares == 0) return 1;
    const double freedom = 1 / squares - 1, counting = ranks * mean_inverse_total;
    const auto mean = mean_shares(shares);
    std::vector<double> variance(mean.size());
    double excess = 0, mean_squares = 0;
    for (std::size_t e = 0; e < mean.size(); ++e) {
        variance[e] = freedom > 1e-6 ? weighted_squares(shares, e, mean[e]) / (1 - squares) : 0;
        excess += variance[e] - mean[e] * counting;
        mean_squares += mean[e] * mean[e];
    }
    double spread = mean_squares > 0 ? std::max(0.0, excess / mean_squares) : 0;
    spread = (freedom * spread + prior_freedom * prior_spread) / (freedom + prior_freedom);
    double rank_variance = 0;
    for (std::size_t e = 0; e < mean.size(); ++e) {
        const double expected = mean[e] * counting + spread * mean[e] * mean[e];
        const double posterior = (variance_freedom * expected + freedom * variance[e]) / (variance_freedom + freedom);
        rank_variance += posterior / replicas[e] / ranks;
    }
    const double sigma = std::sqrt(std::max(0.0, 1 - predictability) * rank_variance);
    const double allowed = 2 * std::sqrt(2 * natural_log(ranks));
    return sigma * sharpness > allowed ? allowed / (sigma * sharpness) : 1;
}

void shrink(SlotShares& shares, double lambda) {
    const auto mean = mean_shares(shares);
    for (int e = 0; e < shares.experts; ++e) {
        const double rest = (1 - lambda) * mean[static_cast<std::size_t>(e)];
        for (int t = 0; t < shares.slots; ++t) {
            if (shares.weight(t) == 0) continue;
            shares.at(e, t) = static_cast<float>(lambda * static_cast<double>(shares.at(e, t)) + rest);
        }
    }
}

SlotShares with_mean_slot(const SlotShares& shares, double weight) {
    SlotShares result(shares.experts, shares.slots + 1);
    const auto mean = mean_shares(shares);
    for (int t = 0; t < shares.slots; ++t) result.weight(t) = shares.weight(t);
    result.weight(shares.slots) = static_cast<float>(weight);
    for (int e = 0; e < shares.experts; ++e) {
        for (int t = 0; t < shares.slots; ++t) result.at(e, t) = shares.at(e, t);
        result.at(e, shares.slots) = static_cast<float>(mean[static_cast<std::size_t>(e)]);
    }
    return result;
}

}  // namespace eplb
