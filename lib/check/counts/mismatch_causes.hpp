// Why the layers of a window count different numbers of tokens: what the numbers themselves speak for.
#pragma once

#include <string>
#include <vector>

#include "check/count_check.hpp"
#include "check/layer_agreement.hpp"

namespace eplb::check {

RowTotals row_totals_of(const CountStatistics& statistics);

// Each cause that fits the numbers, with its remedy, the most certain first; empty where none does. `agreement`: of
// row_totals_of(context.statistics), and it does not agree.
std::vector<std::string> mismatch_causes(const CountContext& context, const LayerAgreement& agreement);

}  // namespace eplb::check
