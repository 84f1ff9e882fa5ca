// Counts of physical slots, and which logical expert each slot held while they were recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/count_options.hpp"
#include "core/tensor.hpp"

namespace eplb {

struct DecodedCounts;

struct SlotMap {
    int layers = 0, slots = 0, experts = 0;
    std::vector<std::int32_t> expert_of_slot;  // [layers, slots], ids in 0..experts-1

    // Of the map alone: recordings with one layout have one digest.
    std::string digest() const;
};

// A map from a tensor of ids [layers, physical slots]. `experts`: the number of logical experts, else the largest id
// plus one. Throws Error{input} BAD_GEOMETRY at `where` for another shape or type and for ids outside the experts.
SlotMap slot_map_of(const Tensor& ids, std::optional<int> experts, const std::string& where);

// What a reader knows of counts whose last axis are physical slots.
struct PhysicalSlots {
    std::optional<SlotMap> map;  // from the file itself
    std::optional<int> rank;     // whose slots the columns are, should they be those of one rank only
    std::optional<int> experts;  // of the model, from a file beside the counts or from --experts
    std::string window;          // names the window that the ranks share; may be empty
    bool received = false;       // each rank counted what its own slots received: all slots are the whole
};

// Turns counts of physical slots into counts of logical experts: with the file's own map, else with that of
// --recorded-layout, else, where the number of experts is
// stated and there are as many slots, slot by slot. Counts of one
// rank's slots become that rank's share: zero for the experts of the other ranks. Does nothing to counts of experts.
// Throws Error{input}: LAYOUT_NEEDED where nothing tells what the slots held, LAYOUT_MISMATCH where the layout is one
// of another model or the counts have experts already, and for the first value that is no count.
void fold_to_experts(DecodedCounts& counts, const CountOptions& options);

}  // namespace eplb
