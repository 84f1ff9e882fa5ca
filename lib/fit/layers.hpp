// Fitting layers side by side: what every policy does around the fit of one layer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "fit/problem.hpp"

namespace eplb {

// Calls `fit_layer(layer)` for every layer, on problem.threads threads, in no fixed order: the calls must not depend on
// each other. Reports progress; throws Interrupted when asked to stop, and otherwise what the call of the lowest
// failing layer threw. `figure(layer)`, if there is one, is called after `fit_layer(layer)` and gives what the layer
// reached, or 0 where there is nothing to reach; the mean over the layers done is the figure of the progress report.
void for_each_layer(const FitProblem& problem, const std::function<void(int layer)>& fit_layer,
                    const std::function<double(int layer)>& figure = {});

// A layout of rows that depend on the layer's totals only. `fit_row(layer, totals, row)` fills the row [R*S] from the
// counts summed over the record slots [E]; layers without counts get the trivial row and no call. `figure` as above.
Layout fit_rows(
    const FitProblem& problem,
    const std::function<void(int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row)>& fit_row,
    const std::function<double(int layer)>& figure = {});

}  // namespace eplb
