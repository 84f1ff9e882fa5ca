// The functions behind the table of policies, one per file.
#pragma once

#include "fit/problem.hpp"

namespace eplb::policy {

FitResult search(const FitProblem& problem);
FitResult greedy_swap(const FitProblem& problem);
FitResult deepseek(const FitProblem& problem);
FitResult trivial(const FitProblem& problem);
FitResult random(const FitProblem& problem);

}  // namespace eplb::policy
