#include "fit/window.hpp"

#include <algorithm>

#include "fit/layers.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/replicate.hpp"
#include "fit/swap.hpp"
#include "score/bounds.hpp"

namespace eplb {

WindowRow fit_window_row(std::span<const std::int64_t> totals, std::span<const double> replica_weights, int ranks,
                         int slots_per_rank, const WindowGoal& goal) {
    double total = 0;
    for (const std::int64_t count : totals) total += static_cast<double>(count);
    const double mean = total / ranks;
    WindowRow best;
    best.bound = window_lower_bound(totals, ranks, slots_per_rank, PairBound::skip);
    const double wanted = best.bound * (1 + goal.gap) * mean;

    double largest = 0;
    const auto attempt = [&](const std::vector<int>& replicas) {
        const auto loads = even_replica_loads(totals, replicas);
        auto row = place(loads, replicas, ranks, slots_per_rank);
        const double reached = swap_down(row, loads, ranks, wanted);
        if (best.row.empty() || reached < largest) {
            best.row = std::move(row);
            largest = reached;
        }
    };
    if (!replica_weights.empty()) attempt(replicate(replica_weights, ranks, ranks * slots_per_rank));
    if (best.row.empty() || largest > wanted) attempt(replicate(totals, ranks, ranks * slots_per_rank));
    best.balancedness = largest / mean;
    return best;
}

FitResult fit_window(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    FitResult result;
    result.layout = fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
        const auto weights = counts.slots > 1 ? peak_weights(counts) : std::vector<double>{};
        const WindowRow fitted = fit_window_row(totals, weights, geometry.ranks, geometry.slots_per_rank, {});
        std::ranges::copy(fitted.row, row.begin());
    });
    return result;
}

}  // namespace eplb
