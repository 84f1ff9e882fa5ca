#pragma once

#include "options.hpp"

namespace eplb {

// Fits, scores, writes and prints. Returns the exit code, 0: a verdict is not a failure.
int run(const FitOptions& options);

}  // namespace eplb
