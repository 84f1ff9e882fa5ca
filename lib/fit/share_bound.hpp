// What real-valued replica shares could reach on a given placement: the certificate for shares in whole source ranks.
#pragma once

#include <cstdint>
#include <span>

#include "core/ids.hpp"

namespace eplb {

// The smallest max_r load_r / mean_r load_r over all shares, exactly up to rounding of the quotient: a max-flow from
// experts to ranks per guess, the guess raised to the quotient of the minimum cut until it is met (Dinkelbach). totals:
// [E], each below 2^63 / R, not all zero; row: [R*S], covers every expert.
double window_share_optimum(std::span<const std::int64_t> totals, std::span<const ExpertId> row, int ranks);

}  // namespace eplb
