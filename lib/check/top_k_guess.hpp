// How many experts a token has, from the totals alone.
#pragma once

#include <optional>

#include "check/count_statistics.hpp"

namespace eplb {

// The gcd of all row totals, where at least 8 different ones leave no room for chance: random token counts share no
// factor, so what remains is top-k (times a constant repetition). It must allow for the largest cell: cell <= row total
// / top-k. Nothing where the layers of a record slot disagree: those totals are not tokens x top-k.
std::optional<int> guess_top_k(const CountStatistics& statistics);

// The whole number q with the largest cells at exactly 1/q of their row, in at least 8 rows, and none above: a ceiling
// that only the tokens of a pass make, each of which hits an expert once. Nothing where there is none; where there is,
// q is top-k (times a constant repetition). Needs hot experts, and says something where all totals are alike.
std::optional<int> top_k_ceiling(const CountStatistics& statistics);

}  // namespace eplb
