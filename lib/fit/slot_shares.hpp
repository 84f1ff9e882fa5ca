// The counts of one layer as the annealer sees them.
#pragma once

#include <span>
#include <vector>

#include "core/counts.hpp"
#include "fit/lanes.hpp"

namespace eplb {

// Shares y[e][t] = W[t,e] * R / W[t]: a rank that carries its fair part of record slot t has load 1. Record slots run
// along the vectors; the padding and slots without counts have weight 0 and shares 0.
struct SlotShares {
    int experts = 0, slots = 0, vectors = 0;
    std::vector<Lanes> values;   // [E][vectors]
    std::vector<Lanes> weights;  // [vectors]: omega_t = W[t] / sum_t W[t]

    SlotShares(int experts_, int slots_);
    float& at(int expert, int slot);
    float at(int expert, int slot) const;
    float& weight(int slot);
    float weight(int slot) const;
};

SlotShares slot_shares(const LayerCounts& counts, int ranks);

}  // namespace eplb
