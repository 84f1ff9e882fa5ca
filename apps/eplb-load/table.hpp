#pragma once

#include "options.hpp"

namespace eplb {

// Reads the layout, computes the tables, writes them with their manifest, prints. Returns the exit code.
int run_table(const TableOptions& options);

}  // namespace eplb
