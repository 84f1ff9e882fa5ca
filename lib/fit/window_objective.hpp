// The window objective for a whole model.
#pragma once

#include "fit/problem.hpp"

namespace eplb {

// Many rows have nearly the least largest load of the totals, and the totals do not say which of them holds up on
// record slots to come. Where the slots predict each other, a short step fit does: its row is evened out until the
// totals are within window_slack of the bound, or of what the window fit alone reaches where that is further from the
// bound. Else, and where exchanges do not get there, the window fit alone.
FitResult fit_window(const FitProblem& problem);

inline constexpr double window_slack = 0.999e-3;  // inside of the 1e-3 that reports certify, however loads are summed

}  // namespace eplb
