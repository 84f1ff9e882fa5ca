#pragma once

#include "options.hpp"

namespace eplb {

// Scores and prints. Returns the exit code: 1 when --fail-above is exceeded or asked with insufficient evidence.
int run(const ScoreOptions& options);

}  // namespace eplb
