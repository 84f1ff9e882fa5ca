// Are per-rank files one whole window (FORMATS C15)?
#pragma once

#include <span>
#include <vector>

#include "check/counts.hpp"

namespace eplb::check {

// Errors RANK_TWICE, RANKS_INCOMPLETE and FOREIGN_RANK; info RANKS_NOT_STATED where the files do not name their ranks.
// Nothing for counts that are summed over the ranks.
void check_rank_set(std::span<const CountReport> reports, const CountOptions& options, std::vector<Finding>& findings);

}  // namespace eplb::check
