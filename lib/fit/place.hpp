// Which rank each replica goes to: longest processing time first, no expert twice on a rank, every rank full.
#pragma once

#include <span>
#include <vector>

#include "core/ids.hpp"

namespace eplb {

// A layout row [ranks * slots_per_rank] with replicas[e] slots for expert e. Experts in descending order of the load of
// one replica (ties: smaller id first) go to the least loaded ranks that have a free slot and not that expert (loads
// that agree in all but their last bits are ties: smaller rank first); where every free slot is on a rank that holds
// the expert already, one exchange makes room. Always succeeds.
//
// replica_loads: w_e / replicas[e], finite, >= 0. replicas: 1 <= replicas[e] <= ranks, sum = ranks * slots_per_rank.
// Throws Error{internal} when the counts are not so.
std::vector<ExpertId> place(std::span<const double> replica_loads, std::span<const int> replicas, int ranks,
                            int slots_per_rank);

// w_e / c_e: the load of one replica under the even split.
std::vector<double> even_replica_loads(std::span<const std::int64_t> weights, std::span<const int> replicas);

}  // namespace eplb
