// Are per-rank files one whole window (FORMATS C15)?
#pragma once

#include <span>
#include <vector>

#include "check/counts.hpp"
#include "core/rank_sum.hpp"

namespace eplb::check {

// Errors RANK_TWICE, RANKS_INCOMPLETE and FOREIGN_RANK; warning EMPTY_RANK; info RANKS_NOT_STATED where the files name
// neither their ranks nor how many there are. Nothing for counts that are summed over the ranks.
void check_rank_set(std::span<const CountReport> reports, const CountOptions& options, std::vector<Finding>& findings);

// Of the passes of a rank set, `reports` in the order of the shares: error FILES_DISAGREE or FOREIGN_RANK where no sum
// is possible, warning PASSES_LEFT_OUT where some ranks have passes that others have not.
std::vector<Finding> passes_findings(std::span<const CountReport> reports, const CommonPasses& passes);

}  // namespace eplb::check
