// Fitting layers side by side: what every policy does around the fit of one layer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "fit/problem.hpp"

namespace eplb {

// Calls `fit_layer(layer)` for every layer, on problem.threads threads, in no fixed order: the calls must not depend on
// each other. Reports progress; throws Interrupted when asked to stop, and otherwise what the call of the lowest
// failing layer threw.
void for_each_layer(const FitProblem& problem, const std::function<void(int layer)>& fit_layer);

// A layout of rows that depend on the layer's totals only. `fit_row(layer, totals, row)` fills the row [R*S] from the
// counts summed over the record slots [E]; layers without counts get the trivial row and no call.
Layout fit_rows(
    const FitProblem& problem,
    const std::function<void(int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row)>& fit_row);

}  // namespace eplb
