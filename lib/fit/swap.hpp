// Lowering the busiest rank by exchanging two replicas at a time.
#pragma once

#include <span>

#include "core/ids.hpp"

namespace eplb {

// Exchanges a replica of the busiest rank with one of another rank, least loaded first, until no rank carries more than
// `target` or no exchange lowers the busiest rank. Taken is the first other rank whose best exchange brings both ranks
// to the target, else the best exchange of all. No rank gets an expert twice. Returns the largest rank load left,
// summed in slot order.
//
// row: [ranks * S], legal. replica_loads: [E], load of one replica of each expert, finite, >= 0.
double swap_down(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks, double target);

}  // namespace eplb
