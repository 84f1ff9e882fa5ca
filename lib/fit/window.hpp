// The window objective for one layer: the smallest largest rank load of the summed counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "fit/problem.hpp"

namespace eplb {

struct WindowGoal {
    double gap = 3e-4;  // good enough: largest load <= (1 + gap) * lower bound
};

struct WindowRow {
    std::vector<ExpertId> row;  // [R*S], legal
    double balancedness = 1;    // max/mean of the rank loads
    double bound = 1;           // no layout is below this
    double gap() const { return balancedness / bound - 1; }
};

// Fits one layer to its totals [E], not all zero, under the even split. replica_weights: [E], what replica counts are
// chosen by first (peak_weights); empty means the totals. Where those miss the goal, counts from the totals compete.
WindowRow fit_window_row(std::span<const std::int64_t> totals, std::span<const double> replica_weights, int ranks,
                         int slots_per_rank, const WindowGoal& goal);

FitResult fit_window(const FitProblem& problem);

}  // namespace eplb
