#include "score/bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/wide.hpp"

namespace eplb {
namespace {

// Exact sums of the sorted totals.
struct SortedTotals {
    std::vector<int128> ascending;  // [i] = sum of the i smallest
    int128 smallest(std::int64_t count) const { return ascending[static_cast<std::size_t>(count)]; }
    int128 largest(std::int64_t count) const { return ascending.back() - *(ascending.end() - 1 - count); }

    explicit SortedTotals(std::span<const std::int64_t> totals) : ascending(totals.size() + 1) {
        std::vector<std::int64_t> sorted(totals.begin(), totals.end());
        std::sort(sorted.begin(), sorted.end());
        for (std::size_t i = 0; i < sorted.size(); ++i) ascending[i + 1] = ascending[i] + sorted[i];
    }
};

// In units of the counts. For j >= ranks - extra all ranks may hold one of the j heaviest, and the bound is the mean.
double hall_bound(std::span<const std::int64_t> totals, std::int64_t ranks, std::int64_t slots) {
    const auto experts = static_cast<std::int64_t>(totals.size());
    const std::int64_t extra = ranks * slots - experts;
    if (ranks - extra <= 1) return 0;
    const SortedTotals sums(totals);
    double bound = 0;
    for (std::int64_t heavy = 1; heavy < ranks - extra; ++heavy) {
        const int128 heavy_load = sums.largest(heavy);
        double least = std::numeric_limits<double>::infinity();
        for (std::int64_t holders = (heavy + slots - 1) / slots; holders <= heavy + extra; ++holders) {
            const std::int64_t filled = std::max<std::int64_t>(0, holders * slots - heavy - extra);
            least =
                std::min(least, static_cast<double>(heavy_load + sums.smallest(filled)) / static_cast<double>(holders));
        }
        bound = std::max(bound, least);
    }
    return bound;
}

// Whether even the fewest replicas that keep each one at or below `largest` are more than there are slots.
bool needs_too_many_replicas(std::span<const std::int64_t> totals, double largest, std::int64_t ranks,
                             std::int64_t slots) {
    double needed = 0;
    for (const std::int64_t total : totals) {
        const double replicas = std::max(1.0, std::ceil(static_cast<double>(total) / largest * certain));
        if (replicas > static_cast<double>(ranks)) return true;
        needed += replicas;
    }
    return needed > static_cast<double>(ranks * slots);
}

// A replica shares its rank with S-1 others; at most B of those are extra replicas, and the rest carry at least the
// lightest experts. Returns `known` when this bound is no better.
double integrality_bound(std::span<const std::int64_t> totals, std::int64_t ranks, std::int64_t slots, double known) {
    const std::int64_t extra = ranks * slots - static_cast<std::int64_t>(totals.size());
    // At the mean, sum_e ceil(w_e / mean) < R + E, and no expert needs more than R: with B >= R there is nothing to
    // find.
    if (extra >= ranks && extra >= slots - 1) return known;
    double company = 0;
    if (slots - 1 - extra > 0) company = static_cast<double>(SortedTotals(totals).smallest(slots - 1 - extra));
    double impossible = std::max(0.0, known - company);
    if (impossible > 0 && !needs_too_many_replicas(totals, impossible, ranks, slots)) return known;
    double possible = static_cast<double>(*std::max_element(totals.begin(), totals.end()));
    for (int step = 0; step < 40 && impossible < possible; ++step) {
        const double middle = 0.5 * (impossible + possible);
        (needs_too_many_replicas(totals, middle, ranks, slots) ? impossible : possible) = middle;
    }
    return std::max(known, impossible + company);
}

// S = 2. For t <= M/2, every rank with a replica above M - t has another one below t. So with b and s replicas above
// M - t and up to t, b <= s. Dropping that replicas of one expert are alike only across experts: with at most
// g_e(c) = (its replicas up to t) - (its replicas above M - t) at c replicas, a layout below M needs counts c_e with
// sum c_e = 2R and sum g_e(c_e) >= 0. For any lambda, sum_e max_c (g_e(c) - lambda c) + lambda 2R bounds that sum from
// above; where it is negative for some t and lambda, M is impossible. For lambda >= 1 only the smallest c of each kind
// (heavy, middling, light) can be the best one.
class PairBound2 {
  public:
    PairBound2(std::span<const std::int64_t> totals, int ranks, double mean) : ranks_(ranks) {
        for (const std::int64_t total : totals) weights_.push_back(static_cast<double>(total) / mean);
        for (auto& counts : fewest_) counts.resize(weights_.size());
    }

    // In units of the mean.
    double improve(double known) {
        if (!impossible(known)) return known;
        double low = known, high = 2 * known;
        for (; impossible(high); high *= 2) low = high;
        for (int step = 0; step < 16; ++step) {
            const double middle = 0.5 * (low + high);
            (impossible(middle) ? low : high) = middle;
        }
        return low;
    }

  private:
    static constexpr int thresholds = 48, lambda_steps = 24;

    bool impossible(double largest) {
        if (excludes(largest, good_threshold_)) return true;
        for (int i = 1; i <= thresholds; ++i) {
            if (i != good_threshold_ && excludes(largest, i)) {
                good_threshold_ = i;
                return true;
            }
        }
        return false;
    }

    bool excludes(double largest, int threshold) {
        const double light = largest * threshold / (2 * thresholds);
        const std::array limits{largest, largest - light, light};
        for (std::size_t e = 0; e < weights_.size(); ++e) {
            for (std::size_t kind = 0; kind < limits.size(); ++kind) {
                fewest_[kind][e] = std::max(1.0, std::ceil(weights_[e] / limits[kind] * certain));
            }
        }
        // The dual is convex in lambda: golden-section search would need fewer steps, thirds need no constant.
        double low = 1, high = 4;
        for (int step = 0; step < lambda_steps; ++step) {
            const double left = low + (high - low) / 3, right = high - (high - low) / 3;
            const double at_left = dual(left), at_right = dual(right);
            if (std::min(at_left, at_right) < -least_excess) return true;
            (at_left < at_right ? high : low) = at_left < at_right ? right : left;
        }
        return false;
    }

    double dual(double lambda) const {
        double sum = lambda * 2 * ranks_;
        for (std::size_t e = 0; e < weights_.size(); ++e) {
            const double heavy = -(lambda + 1) * fewest_[0][e], middling = -lambda * fewest_[1][e],
                         light = (1 - lambda) * fewest_[2][e];
            sum += std::max({heavy, middling, light});
        }
        return sum;
    }

    static constexpr double least_excess = 1e-6;  // far above the rounding of the sum, far below one replica

    double ranks_;
    std::vector<double> weights_;
    std::array<std::vector<double>, 3> fewest_;  // replicas that make one of them heavy, middling or light at most
    int good_threshold_ = thresholds / 2;        // the last one that excluded something
};

}  // namespace

double window_lower_bound(std::span<const std::int64_t> totals, int ranks, int slots_per_rank, PairBound pair_bound) {
    int128 total = 0;
    for (const std::int64_t count : totals) total += count;
    if (total == 0) return 1;
    const double mean = static_cast<double>(total) / ranks;
    double bound = std::max(mean, hall_bound(totals, ranks, slots_per_rank));
    bound = integrality_bound(totals, ranks, slots_per_rank, bound) / mean;
    if (slots_per_rank == 2 && pair_bound == PairBound::include) {
        bound = std::max(bound, PairBound2(totals, ranks, mean).improve(bound));
    }
    return std::max(1.0, bound * certain);
}

}  // namespace eplb
