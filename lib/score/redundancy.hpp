// How much redundancy is worth its memory? Decided from scores of layouts with different numbers of redundant slots.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "score/layout_score.hpp"
#include "score/verdict.hpp"

namespace eplb {

struct BudgetScore {
    int redundant_total = 0;
    const LayoutScore* score = nullptr;  // all over the same record slots
};

struct RedundancyAdvice {
    std::size_t chosen = 0;            // index of the budget to take
    std::vector<std::string> reasons;  // one line each
};

// budgets: ascending in redundant_total, at least one. Starts at the smallest and goes up to the next one whose gain
// over the one chosen so far passes the rules of the verdict (at least 2 %, at least twice its spread): memory for
// redundant slots is paid for certain, so the gain has to be. `base`: what is known of the record slots; without
// layouts.
RedundancyAdvice advise_redundancy(std::span<const BudgetScore> budgets, const Evidence& base);

}  // namespace eplb
