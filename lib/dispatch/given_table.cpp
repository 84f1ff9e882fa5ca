// A dispatch table from a file, checked against the layout.
#include "core/error.hpp"
#include "dispatch/models.hpp"
#include "dispatch/table_faults.hpp"

namespace eplb::dispatch {

DispatchTable given_table(const Layout& layout, const DispatchContext& context) {
    if (context.table == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch", "the model table needs a dispatch table",
                    "give --dispatch-table FILE");
    }
    const TableFaults faults = table_faults(*context.table, layout);
    if (faults.any()) {
        throw Error(ErrorCode::input, faults.where.empty() ? "dispatch table" : "dispatch table, " + faults.where,
                    faults.what, "the table was made for another layout");
    }
    return *context.table;
}

}  // namespace eplb::dispatch
