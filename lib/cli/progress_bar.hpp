// A progress bar on stderr: only on a terminal, and only for work that lasts over a second.
#pragma once

#include <memory>
#include <string>

#include "core/progress.hpp"

namespace eplb::cli {

// A Progress that draws "<what> 12/58, best 1.0123" on one line and wipes it when the last copy goes; it stops on
// Ctrl-C.
Progress progress_bar(std::string what);

}  // namespace eplb::cli
