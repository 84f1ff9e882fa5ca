// Balancedness of one layer: how much more the busiest rank carries than the average rank.
#pragma once

#include <optional>
#include <span>

#include "core/counts.hpp"
#include "core/ids.hpp"

namespace eplb {

// Both are max/mean over the ranks of one layer, >= 1; 1 is perfect. Computed from scratch in a fixed order.
struct LayerBalance {
    double step = 1.0;    // sum_t max_r load(t, r) / sum_t mean_r load(t, r): every step waits for its slowest rank
    double window = 1.0;  // max_r sum_t load(t, r) / mean_r sum_t load(t, r)
    int worst_rank = 0;   // the rank with the largest summed load, lowest id on ties
};

// counts: the record slots to score, [T, E]. row: the layout row, [R*S]. shares: of every slot in its expert's traffic,
// [R*S]. Empty when the layer has no counts.
std::optional<LayerBalance> balance(const LayerCounts& counts, std::span<const ExpertId> row,
                                    std::span<const double> shares, int ranks);

}  // namespace eplb
