// How far replica counts should follow the peaks of an expert: chosen by what held-out record slots would have cost.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/counts.hpp"

namespace eplb {

inline constexpr int default_replica_quarters = 5;  // h = 1.25: docs/theory.md, "Replica counts"

// m_e^(1-h) q_e^h for h = quarters / 4 with mean shares m and their 8-norms q, [E]; 0 where m is 0.
std::vector<double> blend_weights(std::span<const double> mean, std::span<const double> norm, int quarters);

// h in quarters, 0..8, for all layers of a model. Over at most 4 folds of the record slots and 6 evenly spaced layers,
// the replica counts of each h from the other folds are charged, in the fold's slots, the 16-norm over replicas of the
// load a rank would have on which nothing but this expert deviates, 1 + (y_te - m_e) / c_e. The default unless another
// is cheaper by more than a standard error over the folds. Default with fewer than three record slots.
int choose_replica_quarters(std::span<const LayerCounts> layers, int ranks, int slots_per_rank);

}  // namespace eplb
