#include "evaluation/dispatch_input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "dispatch/sglang_releases.hpp"
#include "dispatch/table_faults.hpp"
#include "layout_io/dispatch_file.hpp"

namespace eplb {
namespace {

constexpr const char* balanced = "balanced";

// Throws Error{input} that names the file and the first entry at fault.
void require_made_for(const DispatchFile& file, const Layout& layout) {
    const TableFaults faults = table_faults(file.table, layout);
    if (!faults.any()) return;
    throw Error(ErrorCode::input, faults.where.empty() ? file.path : file.path + ": " + faults.where, faults.what,
                "the table was made for another layout");
}

// The table beside the layout, with the hash that the layout's manifest states.
DispatchTable fitted_table(const LayoutInput& layout) {
    if (!layout.manifest || !layout.manifest->dispatch_table_sha256) {
        throw Error(ErrorCode::input, layout.file.path, "no manifest beside it tells of a balanced dispatch table",
                    "eplb-fit --dispatch balanced makes one");
    }
    DispatchFile file = read_dispatch_table(dispatch_table_path(layout.file.path));
    if (file.sha256 != *layout.manifest->dispatch_table_sha256) {
        throw Error(ErrorCode::input, file.path,
                    fmt::format("its SHA-256 is {}, the manifest of the layout states {}", file.sha256,
                                *layout.manifest->dispatch_table_sha256),
                    "find the files that belong together, or fit again");
    }
    require_made_for(file, layout.file.layout);
    return std::move(file.table);
}

}  // namespace

void settle_dispatch_options(DispatchOptions& options) {
    resolve_dispatch(options.names, options.engine_version);
    bool tensor_parallel = false, nodes = false, table = false;
    for (const std::string& name : options.names) {
        if (name == balanced) continue;
        const DispatchModel& model = find_dispatch_model(name);
        tensor_parallel = tensor_parallel || model.uses_tensor_parallel;
        nodes = nodes || model.needs_nodes;
        table = table || name == "table";
        if (model.needs_nodes && !options.nodes) require_context(model, {});
    }
    const auto refuse = [](const char* flag, const char* what) {
        throw Error(ErrorCode::usage, flag, fmt::format("no --dispatch model {}", what), "drop it, or name the model");
    };
    if (options.tensor_parallel > 1 && !tensor_parallel) refuse("--tp", "depends on tensor parallelism");
    if (options.nodes && !nodes) refuse("--nodes", "depends on the number of nodes");
    if (options.table && !table) refuse("--dispatch-table", "is table");
    if (table && !options.table) {
        throw Error(ErrorCode::usage, "--dispatch", "the model table needs a dispatch table",
                    "give --dispatch-table FILE");
    }
    const bool only_even = std::all_of(options.names.begin(), options.names.end(), [](const std::string& name) {
        return name != balanced && is_even(find_dispatch_model(name));
    });
    if (options.source_weights && only_even) refuse("--source-weights", "depends on where tokens come from");
}

Dispatch rule_dispatch(const std::string& name, const DispatchOptions& options) {
    Dispatch dispatch{&find_dispatch_model(name), {}, name, {}, {}};
    dispatch.context.nodes = options.nodes;
    dispatch.context.tensor_parallel = options.tensor_parallel;
    return dispatch;
}

Dispatch table_dispatch(std::string label, DispatchTable table, std::string subject) {
    Dispatch dispatch{&find_dispatch_model("table"),
                      {},
                      std::move(label),
                      std::move(subject),
                      std::make_shared<const DispatchTable>(std::move(table))};
    dispatch.context.table = dispatch.table.get();
    return dispatch;
}

std::vector<Dispatch> load_dispatches(const DispatchOptions& options, const LayoutInput& layout,
                                      const std::string& subject) {
    std::vector<double> weights;
    if (options.source_weights) {
        weights = read_source_weights(*options.source_weights, layout.file.layout.geometry().ranks);
    }
    std::vector<Dispatch> dispatches;
    for (const std::string& name : options.names) {
        if (name == balanced) {
            dispatches.push_back(table_dispatch(name, fitted_table(layout), subject));
        } else if (name == "table") {
            DispatchFile file = read_dispatch_table(*options.table);
            find_dispatch_table_manifest(file, layout.file.sha256);
            require_made_for(file, layout.file.layout);
            dispatches.push_back(table_dispatch(name, std::move(file.table), subject));
        } else {
            dispatches.push_back(rule_dispatch(name, options));
        }
        dispatches.back().context.source_weights = weights;
    }
    const bool even = std::any_of(dispatches.begin(), dispatches.end(),
                                  [](const Dispatch& dispatch) { return dispatch.label == "even"; });
    if (!even) dispatches.push_back(rule_dispatch("even", {}));
    return dispatches;
}

}  // namespace eplb
