// Entries of a dispatch table that send tokens where their expert is not.
#pragma once

#include <cstdint>
#include <string>

#include "core/dispatch_table.hpp"
#include "core/layout.hpp"

namespace eplb {

struct TableFaults {
    bool other_shape = false;          // for other ranks, layers or experts: the rest is not looked at
    std::int64_t out_of_range = 0;     // entries that are no physical slot
    std::int64_t wrong_expert = 0;     // entries whose slot holds another expert
    std::int64_t unused_replicas = 0;  // slots that no source rank sends to; no fault
    std::string where, what;           // the first fault: "rank 3, layer 1, expert 7", "slot 12 holds expert 4"

    bool any() const { return other_shape || out_of_range > 0 || wrong_expert > 0; }
};

TableFaults table_faults(const DispatchTable& table, const Layout& layout);

}  // namespace eplb
