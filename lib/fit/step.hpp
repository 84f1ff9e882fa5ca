// The step objective: every step waits for its slowest rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/counts.hpp"
#include "core/ids.hpp"
#include "fit/guard.hpp"
#include "fit/problem.hpp"
#include "fit/schedule.hpp"

namespace eplb {

// Weights for the replica counts, [E]: m^(1-h) q^h with the mean share m of an expert, the 8-norm q of its shares over
// the record slots (peak_weights) and h = quarters / 4. h = 0 looks at the totals only, h = 1 at the peaks, above 1
// beyond the peaks seen.
std::vector<double> replica_weights(const LayerCounts& counts, int quarters);

// Work that an effort buys for a layer of `slots` record slots.
Work step_work(Effort effort, int slots);

struct StepRow {
    std::vector<ExpertId> row;  // [R*S], legal
    double step = 1;            // step balancedness on the fitted slots
    bool window = false;        // the window fit won there
    double shrink = 1;          // lambda
};

// Fits one layer whose counts are not all zero, under the even split: the annealed row or `window`, the window fit
// [R*S] of the same counts, whichever is better on the slots given. The window fit where the plan says so.
StepRow fit_step_row(const LayerCounts& counts, std::span<const ExpertId> window, int ranks, const StepPlan& plan,
                     Work work, std::uint64_t seed);

// Step balancedness of a row under the even split, by the judge; 1 for counts that are all zero.
double step_balancedness(const LayerCounts& counts, std::span<const ExpertId> row, int ranks);

FitResult fit_step(const FitProblem& recorded);

}  // namespace eplb
