// How much each record slot says about slots to come.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/counts.hpp"
#include "fit/problem.hpp"

namespace eplb {

// The same problem with copies of a record slot as one slot that holds their sum: every figure of a layout is the same,
// and no slot is evidence for itself. Empty where no slot is a copy.
std::optional<FitProblem> without_copies(const FitProblem& problem);

// One layer's counts with few record slots scaled towards the same size: up to 7 to the same, up to 31 to the square
// roots of their sizes. The shares of a large slot are known better, but what varies between slots is mostly what was
// served in them, of which a large slot is one case as a small one is.
struct WeighedCounts {
    LayerCounts counts;
    double inverse_total = 0;  // mean over the slots, weighted by their scaled totals, of 1 / (tokens recorded)
};

WeighedCounts weigh_slots(const LayerCounts& counts);

}  // namespace eplb
