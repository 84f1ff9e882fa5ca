// The step objective: every step waits for its slowest rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/counts.hpp"
#include "core/ids.hpp"
#include "fit/problem.hpp"
#include "fit/schedule.hpp"

namespace eplb {

// How the rows of a model are fitted; the same for all its layers.
struct StepSettings {
    int replica_quarters = 5;  // h in quarters, see replica_weights()
    double replica_share = 0;  // of the annealer's proposals
    Work work = 0;             // of the annealer, a layer
};

// Weights for the replica counts, [E]: m^(1-h) q^h with the mean share m of an expert and the 8-norm q of its shares
// over the record slots (peak_weights). h = 0 looks at the totals only, h = 1 at the peaks, above 1 beyond the peaks
// seen.
std::vector<double> replica_weights(const LayerCounts& counts, int quarters);

// Work that an effort buys for a layer of `slots` record slots.
Work step_work(Effort effort, int slots);

// One row [R*S] for the step balancedness of `counts`, which are not all zero, under the even split.
std::vector<ExpertId> fit_step_row(const LayerCounts& counts, int ranks, int slots_per_rank,
                                   const StepSettings& settings, std::uint64_t seed);

FitResult fit_step(const FitProblem& problem);

}  // namespace eplb
