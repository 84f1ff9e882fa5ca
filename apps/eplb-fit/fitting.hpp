// One fit as the command line asks for it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "core/geometry.hpp"
#include "fit/problem.hpp"
#include "options.hpp"

namespace eplb {

// Throws Error{infeasible} when no legal layout has these numbers.
Geometry geometry_of(const FitOptions& options, int layers, int experts);
Geometry geometry_with_redundancy(int layers, int experts, int ranks, int redundant_total);

// Fits on these record slots. `what` names the work on the progress bar.
FitResult fit_on(const FitOptions& options, const FitPolicy& policy, const Counts& counts,
                 std::span<const int> record_slots, const Geometry& geometry, const std::string& what);

}  // namespace eplb
