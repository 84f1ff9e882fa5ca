#include "fit/policies.hpp"
#include "fit/step.hpp"
#include "fit/window_objective.hpp"

namespace eplb::policy {

// Ours. One file per objective.
FitResult search(const FitProblem& problem) {
    switch (problem.objective) {
        case Objective::window:
            return fit_window(problem);
        case Objective::step:
            break;
    }
    return fit_step(problem);
}

}  // namespace eplb::policy
