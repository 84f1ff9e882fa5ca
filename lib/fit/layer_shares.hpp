// One layer under given replica shares: what the fits for a dispatch have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "dispatch/model.hpp"
#include "dispatch/static_dealer.hpp"
#include "fit/cooling.hpp"
#include "fit/dispatch_search.hpp"
#include "fit/problem.hpp"
#include "fit/share_energy.hpp"

namespace eplb {

inline constexpr Cooling from_scratch{0.15, 0.0015};   // wherever the start is
inline constexpr Cooling from_even_fit{0.03, 0.0015};  // a start that is good already is not to be forgotten

std::int64_t proposals_of(Effort effort);  // of a layer

bool has_counts(const LayerCounts& counts);

// The window objective is the step objective of one record slot that holds the totals.
ShareEnergy energy_of(const FitProblem& problem, int layer);

// Max/mean of the objective under these shares; 1 for a layer without counts.
double objective_of(const FitProblem& problem, int layer, const SharedRow& shared);

// The problem with a progress report for part `index` of `parts` searches that report as one.
FitProblem part_of(const FitProblem& problem, int index, int parts);

// What the fill deals in the row's layer after all layers before, and moves its streams on: of the sources that it
// serves, how many end at each replica, [E][replicas].
std::vector<std::vector<int>> dealt_sources(dispatch::StaticDealer& dealer, const DispatchModel& model,
                                            std::span<const DispatchSource> sources, std::span<const ExpertId> row,
                                            int experts);

}  // namespace eplb
