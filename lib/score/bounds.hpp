// Lower bounds of the window balancedness: what no layout of a geometry can beat.
#pragma once

#include <cstdint>
#include <span>

namespace eplb {

// Bounds are rounded down by this factor: what a few hundred roundings cannot bridge.
inline constexpr double certain = 1 - 1e-12;

// The pair bound costs milliseconds a layer and helps with two slots a rank only; the others cost microseconds.
enum class PairBound { skip, include };

// The largest of the bounds below as a ratio to the mean rank load, >= 1: max_r load_r / mean_r load_r of every layout
// of these totals [E] under the even split is at least this. Rounded down by 1e-12, so that it is certain. 1 for a
// layer without counts. The geometry is feasible (E <= R*S, S <= E). docs/theory.md derives the bounds.
//
//   mean         no rank carries less than the average
//   hall         the j heaviest experts have at most j + B replicas (B = R*S - E) and so lie on k <= j + B ranks, whose
//                other slots carry at least the lightest of the rest
//   integrality  a replica of every expert fits under the maximum, with R*S replicas in all and one a rank
//   pairs        S = 2: heavy replicas need as many light partners
double window_lower_bound(std::span<const std::int64_t> totals, int ranks, int slots_per_rank,
                          PairBound pair_bound = PairBound::include);

}  // namespace eplb
