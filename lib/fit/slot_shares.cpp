#include "fit/slot_shares.hpp"

#include <cstddef>
#include <cstdint>

namespace eplb {
namespace {

std::size_t vector_of(const SlotShares& shares, int expert, int slot) {
    return static_cast<std::size_t>(expert) * static_cast<std::size_t>(shares.vectors) +
           static_cast<std::size_t>(slot / lane_count);
}

std::size_t lane_of(int slot) {
    return static_cast<std::size_t>(slot % lane_count);
}

}  // namespace

SlotShares::SlotShares(int experts_, int slots_)
    : experts(experts_),
      slots(slots_),
      vectors(vectors_for(slots_)),
      values(static_cast<std::size_t>(experts_) * static_cast<std::size_t>(vectors)),
      weights(static_cast<std::size_t>(vectors)) {}

float& SlotShares::at(int expert, int slot) {
    return values[vector_of(*this, expert, slot)].values[lane_of(slot)];
}

float SlotShares::at(int expert, int slot) const {
    return values[vector_of(*this, expert, slot)].values[lane_of(slot)];
}

float& SlotShares::weight(int slot) {
    return weights[vector_of(*this, 0, slot)].values[lane_of(slot)];
}

float SlotShares::weight(int slot) const {
    return weights[vector_of(*this, 0, slot)].values[lane_of(slot)];
}

SlotShares slot_shares(const LayerCounts& counts, int ranks) {
    SlotShares shares(counts.experts, counts.slots);
    std::vector<double> totals;
    double total = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        totals.push_back(static_cast<double>(counts.slot_total(slot)));
        total += totals.back();
    }
    for (int slot = 0; slot < counts.slots; ++slot) {
        const double slot_total = totals[static_cast<std::size_t>(slot)];
        if (slot_total == 0) continue;
        shares.weight(slot) = static_cast<float>(slot_total / total);
        const auto row = counts.row(slot);
        const double scale = ranks / slot_total;
        for (int expert = 0; expert < counts.experts; ++expert) {
            shares.at(expert, slot) =
                static_cast<float>(static_cast<double>(row[static_cast<std::size_t>(expert)]) * scale);
        }
    }
    return shares;
}

}  // namespace eplb
