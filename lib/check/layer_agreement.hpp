// Do the layers of a window count the same tokens? Weighed by tokens: the totals of the window, and what share of the
// counts sits in record slots whose layers differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace eplb {

// Totals of record slot s and layer l: values[s * slot_stride + l * layer_stride].
struct RowTotals {
    std::span<const std::int64_t> values;
    int slots = 0, layers = 0;
    std::size_t slot_stride = 0, layer_stride = 0;

    std::int64_t at(int slot, int layer) const {
        return values[static_cast<std::size_t>(slot) * slot_stride + static_cast<std::size_t>(layer) * layer_stride];
    }
};

// Two layers and their totals.
struct LayerPair {
    int low_layer = 0, high_layer = 0;
    std::int64_t low = 0, high = 0;

    std::int64_t difference() const { return high - low; }
    bool differs() const;  // by more than a thousandth of the larger: (high - low) / high > 1e-3, exactly
};

struct LayerAgreement {
    std::vector<int> slots, layers;  // with counts, ascending; the others are left out
    std::int64_t total = 0;
    LayerPair window;                   // the layers with the smallest and the largest total
    int uneven_slots = 0;               // record slots whose layers are not all equal
    int differing_slots = 0;            // record slots whose layers differ
    std::int64_t differing_counts = 0;  // all counts of those
    int worst_slot = -1;                // with the largest difference in tokens; -1: none is uneven
    LayerPair worst;                    // in it

    bool equal() const { return uneven_slots == 0; }
    // At most a twentieth of the counts sit in record slots whose layers differ.
    bool slots_agree() const;
    bool agree() const { return !window.differs() && slots_agree(); }
};

// Layers and record slots without counts are left out, and the layer `without`.
LayerAgreement agreement_of(const RowTotals& totals, std::optional<int> without = std::nullopt);

}  // namespace eplb
