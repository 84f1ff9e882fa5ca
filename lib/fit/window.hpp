// The window objective for one layer: the smallest largest rank load of the summed counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "fit/problem.hpp"

namespace eplb {

// When a layer is good enough, and how much is spent on one that is not.
struct WindowGoal {
    double gap = 3e-4;                // largest load <= (1 + gap) * lower bound
    std::int64_t proposals = 20'000;  // of annealing
};

WindowGoal window_goal(Effort effort);

struct WindowRow {
    std::vector<ExpertId> row;  // [R*S], legal
    double balancedness = 1;    // max/mean of the rank loads
    double bound = 1;           // no layout is below this
    double gap() const { return balancedness / bound - 1; }
};

// Fits one layer to its totals [E], not all zero, under the even split. replica_weights: [E], what replica counts are
// chosen by first (peak_weights); empty means the totals. Where those miss the goal, counts from the totals compete,
// then pairs are exchanged, then replica counts and placement are searched together. At most 64 slots are always
// searched: it costs little, and there the quick steps can be far from the best.
WindowRow fit_window_row(std::span<const std::int64_t> totals, std::span<const double> replica_weights, int ranks,
                         int slots_per_rank, const WindowGoal& goal, std::uint64_t seed);

// Fits one layer of a problem, not all zero, as fit_window does: replica weights, goal and seed come from the problem.
WindowRow fit_window_layer(const FitProblem& problem, int layer, std::span<const std::int64_t> totals);

// Exchanges that lower the largest rank load of a legal row to `largest` where they can; returns what it is then.
double even_out_window(std::span<ExpertId> row, std::span<const std::int64_t> totals, int ranks, double largest);

}  // namespace eplb
