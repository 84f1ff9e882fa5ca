// Weights for replication that see the peaks of an expert, not only its total.
#pragma once

#include <vector>

#include "core/counts.hpp"

namespace eplb {

// The 8-norm of each expert's share over the record slots, [E]: q_e = (sum_t omega_t * (W[t,e] / W[t])^8)^(1/8), with
// W[t] = sum_e W[t,e] and omega_t = W[t] / sum_t W[t]. Slots without counts do not take part; all zero when there are
// no others. Replica counts from these weights hold up better on record slots that were not fitted on than counts
// from totals do (docs/theory.md).
std::vector<double> peak_weights(const LayerCounts& counts);

}  // namespace eplb
