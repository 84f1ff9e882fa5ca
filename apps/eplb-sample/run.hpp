// What eplb-sample does.
#pragma once

#include "options.hpp"

namespace eplb {

// Makes the counts, writes the file, says what it holds. Returns the exit code.
int run(const SampleOptions& options);

}  // namespace eplb
