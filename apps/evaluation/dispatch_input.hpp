// The dispatch models of a command line, with what they need to know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluation/evaluation.hpp"
#include "evaluation/layout_input.hpp"

namespace eplb {

// Values of --dispatch, --engine-version, --nodes, --tp, --source-weights and --dispatch-table.
struct DispatchOptions {
    std::vector<std::string> names;  // of models, or balanced: the table that eplb-fit stored beside the layout
    std::optional<int> nodes;
    int tensor_parallel = 1;
    std::optional<std::string> engine_version, source_weights, table;
};

// Puts models in place of the names that depend on the engine's version. Throws Error{usage} for unknown names and for
// flags that none of the models uses. Opens no file.
void settle_dispatch_options(DispatchOptions& options);

// The model, or the table for balanced, which goes with `subject` only.
Dispatch rule_dispatch(const std::string& name, const DispatchOptions& options);
Dispatch table_dispatch(std::string label, DispatchTable table, std::string subject);

// The dispatches in the order of the names, and after them the even split, if it is not among them, to compare with.
// Tables are read and held against the layout, which is the subject `subject`.
std::vector<Dispatch> load_dispatches(const DispatchOptions& options, const LayoutInput& layout,
                                      const std::string& subject);

}  // namespace eplb
