#pragma once

#include "options.hpp"

namespace eplb {

// Checks, prints and returns the exit code: 0, or 1 when the answer is no. Throws the first Error{input} of a file that
// cannot be decoded, after the report has been printed.
int run(const ValidateOptions& options);

}  // namespace eplb
