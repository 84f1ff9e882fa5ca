#include "score/step_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "score/bounds.hpp"

namespace eplb {
namespace {

constexpr int rounds = 64;  // of the dual ascent; the bound is valid after any number

// The whole replica counts c, 1 <= c <= ranks, sum c = total, that make sum_e a_e / c_e least: the greedy, since a / c
// is convex in c.
std::vector<int> cheapest_replicas(const std::vector<double>& a, int ranks, int total) {
    std::vector<int> replicas(a.size(), 1);
    std::priority_queue<std::pair<double, std::size_t>> gains;
    if (ranks > 1) {
        for (std::size_t e = 0; e < a.size(); ++e) gains.emplace(a[e] / 2, e);
    }
    for (int left = total - static_cast<int>(a.size()); left > 0 && !gains.empty(); --left) {
        const std::size_t e = gains.top().second;
        gains.pop();
        const int c = ++replicas[e];
        if (c < ranks) gains.emplace(a[e] / (static_cast<double>(c) * (c + 1)), e);
    }
    return replicas;
}

// For weights lambda[t,e] >= 0 with sum_e lambda[t,e] <= 1, sum_t max(b_t, max_e W[t,e] / c_e) is at least
// sum_e A_e / c_e + D, A_e = sum_t lambda[t,e] W[t,e], D = sum_t (1 - sum_e lambda[t,e]) b_t, and the least of that
// over c is a bound. The weights start where each slot's maximum lies and move towards where it lies for the c that
// answers them best (fictitious play, step 2 / (k + 2)).
double replica_bound(const LayerCounts& counts, const std::vector<double>& slot_bounds, int ranks, int total) {
    const auto experts = static_cast<std::size_t>(counts.experts);
    std::vector<double> a(experts);
    double d = 0, best = 0;
    std::vector<int> replicas(experts, 1);
    for (int round = 0; round < rounds; ++round) {
        const double step = 2.0 / (round + 2);  // 1 at first: the start is forgotten
        for (double& value : a) value *= 1 - step;
        d *= 1 - step;
        std::vector<double> parts(experts);
        for (std::size_t e = 0; e < experts; ++e) parts[e] = 1.0 / replicas[e];
        for (int t = 0; t < counts.slots; ++t) {
            const auto row = counts.row(t);
            double largest = slot_bounds[static_cast<std::size_t>(t)];
            std::size_t where = experts;
            for (std::size_t e = 0; e < experts; ++e) {
                const double load = static_cast<double>(row[e]) * parts[e];
                if (load > largest) {
                    largest = load;
                    where = e;
                }
            }
            if (where == experts) {
                d += step * largest;
            } else {
                a[where] += step * static_cast<double>(row[where]);
            }
        }
        replicas = cheapest_replicas(a, ranks, total);
        double value = d;
        for (std::size_t e = 0; e < experts; ++e) value += a[e] / replicas[e];
        best = std::max(best, value);
    }
    return best;
}

}  // namespace

double step_lower_bound(const LayerCounts& counts, int ranks, int slots_per_rank) {
    double mean = 0, slots = 0;
    std::vector<double> slot_bounds;
    for (int t = 0; t < counts.slots; ++t) {
        const double slot_mean = static_cast<double>(counts.slot_total(t)) / ranks;
        mean += slot_mean;
        slot_bounds.push_back(slot_mean * window_lower_bound(counts.row(t), ranks, slots_per_rank, PairBound::skip));
        slots += slot_bounds.back();
    }
    if (mean == 0) return 1;
    const double replicas = replica_bound(counts, slot_bounds, ranks, ranks * slots_per_rank);
    const double window = window_lower_bound(counts.expert_totals(), ranks, slots_per_rank, PairBound::skip);
    return std::max({1.0, window, slots / mean * certain, replicas / mean * certain});
}

}  // namespace eplb
