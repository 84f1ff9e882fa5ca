// Which rule made a table that was taken from a server?
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/dispatch_table.hpp"
#include "core/layout.hpp"
#include "dispatch/model.hpp"

namespace eplb {

// A rule under the nodes and the tensor-parallel size with which it comes nearest to the table.
struct TableMatch {
    std::string_view model;
    std::optional<int> nodes;  // where the rule asks for them
    int tensor_parallel = 1;
    std::int64_t different = 0;  // entries; 0: the rule may have made the table
    // The first that differs.
    int process = 0, layer = 0, expert = 0;
    SlotId by_rule, in_table;
};

// Every static rule against `table`, the nearest first. What `given` does not say, nodes and the tensor-parallel size
// of vllm-ascend, is tried: all numbers that divide. `process`: the table is the one row of that process. Throws
// Error{input} when the table is not for the layout's ranks (times the processes of `given`), layers and experts.
std::vector<TableMatch> match_table(const Layout& layout, const DispatchTable& table, const DispatchContext& given,
                                    std::optional<int> process);

}  // namespace eplb
