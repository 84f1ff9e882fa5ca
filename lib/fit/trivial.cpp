#include "fit/policies.hpp"

namespace eplb::policy {

// Legal for every feasible geometry: a rank holds S consecutive slots, and S <= E consecutive numbers differ mod E;
// E <= R*S slots cover every expert.
FitResult trivial(const FitProblem& problem) {
    return {trivial_layout(problem.geometry), {}};
}

}  // namespace eplb::policy
