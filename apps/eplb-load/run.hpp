// What eplb-load does, a function for each subcommand.
#pragma once

#include "options.hpp"

namespace eplb {

int run(const LoadOptions& options);

int run_check(const CheckOptions& options);
int run_table(const TableOptions& options);
int run_checkpoint(const CheckpointOptions& options);

}  // namespace eplb
