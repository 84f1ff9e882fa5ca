#include "check/dispatch_table.hpp"

#include <fmt/format.h>

#include "dispatch/table_faults.hpp"

namespace eplb {

std::vector<Finding> check_dispatch_table(const DispatchTable& table, const Layout& layout) {
    const TableFaults faults = table_faults(table, layout);
    const char* other_layout = "the table was made for another layout: make it again with eplb-load table";
    if (faults.other_shape) return {{Severity::error, "TABLE_SHAPE_MISMATCH", "", faults.what, other_layout}};
    std::vector<Finding> findings;
    // Where both kinds occur the place of the first fault is told once.
    const auto report = [&](const char* code, std::int64_t number, const char* what) {
        if (number == 0) return;
        const bool first = findings.empty();
        findings.push_back({Severity::error, code, first ? faults.where : "",
                            fmt::format("{} {} {}{}", number, number == 1 ? "entry" : "entries", what,
                                        first ? "; the first fault: " + faults.what : ""),
                            other_layout});
    };
    report("TABLE_SLOT_OUT_OF_RANGE", faults.out_of_range, "outside the physical slots");
    report("TABLE_WRONG_EXPERT", faults.wrong_expert, "with a slot of another expert");
    if (findings.empty() && faults.unused_replicas > 0) {
        findings.push_back({Severity::info, "REPLICAS_UNUSED", "",
                            fmt::format("no source rank sends to {} of the physical slots", faults.unused_replicas),
                            "memory that this dispatch does not use"});
    }
    return findings;
}

}  // namespace eplb
