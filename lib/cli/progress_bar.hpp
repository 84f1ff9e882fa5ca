// A progress bar on stderr: only on a terminal, and only for work that lasts over a second.
#pragma once

#include <memory>
#include <string>

#include "core/progress.hpp"

namespace eplb::cli {

// "<what> [######    ] 12/58, best 1.0123 so far"; without a figure (best = 0) it ends after the numbers. `best` is
// what the work done so far has reached; of a fit for the step objective, the mean step balancedness of the layers done
// on the record slots fitted.
std::string progress_line(const std::string& what, int done, int total, double best);

// A Progress that draws progress_line() over itself and wipes it when the last copy goes; it stops on Ctrl-C.
Progress progress_bar(std::string what);

}  // namespace eplb::cli
