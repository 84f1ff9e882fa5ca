// What real-valued replica shares could reach on a given placement: the certificate for shares in whole source ranks.
#pragma once

#include <cstdint>
#include <span>

#include "core/counts.hpp"
#include "core/ids.hpp"

namespace eplb {

// The smallest max_r load_r / mean_r load_r over all shares, exactly up to rounding of the quotient: a max-flow from
// experts to ranks per guess, the guess raised to the quotient of the minimum cut until it is met (Dinkelbach). totals:
// [E], each below 2^63 / R, not all zero; row: [R*S], covers every expert.
double window_share_optimum(std::span<const std::int64_t> totals, std::span<const ExpertId> row, int ranks);

// The smallest sum_t max_r load(t, r) / sum_t mean_r load(t, r) when every record slot gets shares of its own: a lower
// bound for shares that are the same in all of them, as those of a table are. counts: not all zero; row as above.
double step_share_optimum(const LayerCounts& counts, std::span<const ExpertId> row, int ranks);

}  // namespace eplb
