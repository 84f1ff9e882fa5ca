// A dump resets the recorder, so a second dump is well formed and all zero.
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_empty(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    if (statistics.total != 0) return {};
    return {{Severity::error, "EMPTY_COUNTS", "",
             statistics.record_slots == 0 ? "no record slot at all"
                                          : fmt::format("all {} record slots are zero", statistics.record_slots),
             "a second dump after the first one reset the recorder, or recording was never started: start, send the "
             "load, dump once"}};
}

}  // namespace eplb::check
