// What a layout will score on record slots that it was not fitted on, estimated from those that it was fitted on.
#pragma once

#include <optional>
#include <span>

#include "fit/step.hpp"

namespace eplb {

// A sample of the layers is fitted again without every fourth record slot, at less work, and scored on those slots.
struct CrossValidation {
    double expected_step =
        1;              // mean over the layers of the step balancedness to expect: what the fit reached on its own
                        // slots and the mean of what the scores exceed that. Slightly high: fewer slots, less work.
    double excess = 0;  // mean of what the step fit scores above the window fit of the same slots; < 0: it wins
    double error = 0;   // standard error of `excess` over the sampled layers
};

// rows: what was fitted, [L]; empty rows are layers without counts. Empty with fewer than three record slots with
// counts.
std::optional<CrossValidation> cross_validate(const FitProblem& problem, const StepPlan& plan, Work work,
                                              std::span<const StepRow> rows);

}  // namespace eplb
