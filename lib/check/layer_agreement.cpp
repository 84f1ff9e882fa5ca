#include "check/layer_agreement.hpp"

#include "core/wide.hpp"

namespace eplb {
namespace {

template <typename Total>
LayerPair extremes(const std::vector<int>& layers, const Total& total) {
    LayerPair pair{layers.front(), layers.front(), total(layers.front()), total(layers.front())};
    for (const int layer : layers) {
        const std::int64_t value = total(layer);
        if (value < pair.low) pair.low = value, pair.low_layer = layer;
        if (value > pair.high) pair.high = value, pair.high_layer = layer;
    }
    return pair;
}

}  // namespace

bool LayerPair::differs() const {
    return high > 0 && ratio_greater(difference(), high, 1, 1000);
}

bool LayerAgreement::slots_agree() const {
    return total == 0 || !ratio_greater(differing_counts, total, 1, 20);
}

LayerAgreement agreement_of(const RowTotals& totals, std::optional<int> without) {
    LayerAgreement result;
    std::vector<std::int64_t> layer_totals(static_cast<std::size_t>(totals.layers));
    std::vector<std::int64_t> slot_totals(static_cast<std::size_t>(totals.slots));
    for (int slot = 0; slot < totals.slots; ++slot) {
        for (int layer = 0; layer < totals.layers; ++layer) {
            if (layer == without) continue;
            layer_totals[static_cast<std::size_t>(layer)] += totals.at(slot, layer);
            slot_totals[static_cast<std::size_t>(slot)] += totals.at(slot, layer);
        }
        result.total += slot_totals[static_cast<std::size_t>(slot)];
        if (slot_totals[static_cast<std::size_t>(slot)] != 0) result.slots.push_back(slot);
    }
    for (int layer = 0; layer < totals.layers; ++layer) {
        if (layer_totals[static_cast<std::size_t>(layer)] != 0) result.layers.push_back(layer);
    }
    if (result.layers.empty()) return result;
    result.window = extremes(result.layers, [&](int layer) { return layer_totals[static_cast<std::size_t>(layer)]; });
    for (const int slot : result.slots) {
        const LayerPair pair = extremes(result.layers, [&](int layer) { return totals.at(slot, layer); });
        if (pair.difference() == 0) continue;
        ++result.uneven_slots;
        if (result.worst_slot < 0 || pair.difference() > result.worst.difference()) {
            result.worst_slot = slot;
            result.worst = pair;
        }
        if (!pair.differs()) continue;
        ++result.differing_slots;
        result.differing_counts += slot_totals[static_cast<std::size_t>(slot)];
    }
    return result;
}

}  // namespace eplb
