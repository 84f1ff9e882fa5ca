// Balancedness of one layer: how much more the busiest rank carries than the average rank.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/counts.hpp"
#include "core/ids.hpp"

namespace eplb {

// Both are max/mean over the ranks of one layer, >= 1; 1 is perfect. Computed from scratch in a fixed order.
struct LayerBalance {
    double step = 1.0;    // sum_t max_r load(t, r) / sum_t mean_r load(t, r): every step waits for its slowest rank
    double window = 1.0;  // max_r sum_t load(t, r) / mean_r sum_t load(t, r)
    int worst_rank = 0;   // the rank with the largest summed load, lowest id on ties
};

// What the ranks of one layer carry, in counts.
struct LayerLoads {
    std::vector<double> step_max, step_mean;  // [T] of the busiest rank and of the average rank, in each record slot
    std::vector<double> rank_total;           // [R] over all record slots
};

// counts: the record slots to score, [T, E]. row: the layout row, [R*S]. shares: of every slot in its expert's traffic,
// [R*S]. An expert without a slot in the row carries its traffic nowhere.
LayerLoads layer_loads(const LayerCounts& counts, std::span<const ExpertId> row, std::span<const double> shares,
                       int ranks);

// Empty when the layer has no counts.
std::optional<LayerBalance> balance(const LayerLoads& loads);
std::optional<LayerBalance> balance(const LayerCounts& counts, std::span<const ExpertId> row,
                                    std::span<const double> shares, int ranks);

}  // namespace eplb
