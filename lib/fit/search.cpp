#include "core/error.hpp"
#include "fit/policies.hpp"
#include "fit/window.hpp"

namespace eplb::policy {

// Ours. One file per objective.
FitResult search(const FitProblem& problem) {
    switch (problem.objective) {
        case Objective::window:
            return fit_window(problem);
        case Objective::step:
            break;
    }
    throw Error(ErrorCode::internal, "fit", "no search for this objective");
}

}  // namespace eplb::policy
