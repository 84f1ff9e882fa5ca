// Lowering the busiest rank by exchanging two replicas for two others: what remains possible when no single exchange
// helps.
#pragma once

#include <span>

#include "core/ids.hpp"

namespace eplb {

// Like swap_down, with exchanges of two for two; each is followed by the single exchanges that it opens up. Returns the
// largest rank load left. Does no pair exchanges with one slot a rank or more than 64, where the pairs of a rank are
// none or too many.
double swap_pairs_down(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks, double target);

}  // namespace eplb
