// A lower bound of the step balancedness: how much could still be gained on given record slots.
#pragma once

#include "core/counts.hpp"

namespace eplb {

// No layout of R ranks with S slots has, under the even split, a smaller step balancedness on these counts than this;
// >= 1, 1 for counts that are all zero. The geometry is feasible. The largest of three bounds, rounded down by 1e-12:
//
//   window    sum_t max_r >= max_r sum_t: the window bound of the totals
//   slots     sum_t of the window bound of slot t alone: as if every slot could have a layout of its own
//   replicas  the same, but with one number of replicas c_e for all slots: a rank carries at least W[t,e] / c_e, so
//             sum_t max(b_t, max_e W[t,e] / c_e) for the best whole c with sum c = R*S, with b_t the bound of slot t;
//             bounded from below by Lagrangian duality. docs/theory.md derives it.
//
// Takes about a millisecond for 64 record slots and 256 experts.
double step_lower_bound(const LayerCounts& counts, int ranks, int slots_per_rank);

}  // namespace eplb
