// Which slot contents move where when a layer goes from one row of a layout to another. Knows no tensor.
#pragma once

#include <span>
#include <vector>

#include "core/ids.hpp"

namespace eplb {

// The content of local slot `source_slot` of rank `source_rank` becomes that of `target_slot` on `target_rank`.
struct SlotMove {
    int source_rank = 0, source_slot = 0, target_rank = 0, target_slot = 0;
    bool operator==(const SlotMove&) const = default;
};

// The moves that turn `old_row` into `new_row` (each [R*S]), in the order of the physical target slot; a slot that
// keeps its expert does not appear. An expert is taken from the rank itself, else from the lowest rank of the same
// node, else from the lowest rank that holds it, always from its lowest slot there; ranks are spread over the nodes
// contiguously. Every rank computes the same list. Throws Error{input} when the rows do not fit `ranks` and `nodes`, or
// the new row wants an expert that no slot of the old one holds.
std::vector<SlotMove> exchange_plan(std::span<const ExpertId> old_row, std::span<const ExpertId> new_row, int ranks,
                                    int nodes);

inline constexpr int spare_slot = -1;

struct CopyStep {
    int from = 0, to = 0;  // slots, or spare_slot
    bool operator==(const CopyStep&) const = default;
};

// Copies that, done one after the other, give every slot s what slot source[s] held before the first of them;
// source[s] == s or -1 leaves a slot as it is. One spare slot is enough: it breaks one cycle at a time. Throws
// Error{input} when a source is no slot.
std::vector<CopyStep> copy_steps(std::span<const int> source);

}  // namespace eplb
