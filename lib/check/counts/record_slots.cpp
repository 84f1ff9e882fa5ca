// A ring buffer is dumped whole, zeros included, and its write index survives a reset.
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_record_slots(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    if (statistics.record_slots < 2) return {};
    const auto filled = static_cast<int>(statistics.filled.size());
    const int unfilled = statistics.record_slots - filled - static_cast<int>(context.left_out.slots.size());
    if (context.window && !context.window->sequence.empty()) {
        const auto& sequence = context.window->sequence;
        return {{Severity::info, "WINDOW_ORDER_KNOWN", "",
                 fmt::format("{} passes, {} to {}, oldest first; {} earlier ones were overwritten", sequence.size(),
                             sequence.front(), sequence.back(), context.window->overwritten),
                 "--holdout last judges on the newest part"}};
    }
    if (unfilled > 0) {
        return {{Severity::info, "UNFILLED_RECORD_SLOTS", "",
                 fmt::format("{} of {} record slots hold counts, {} are zero and are left out", filled,
                             statistics.record_slots, unfilled),
                 "never cut a dump by position: a ring may start anywhere"}};
    }
    return {{Severity::info, "FULL_RING", "",
             fmt::format("all {} record slots hold counts: a ring of this size may have overwritten older passes, and "
                         "its order is unknown",
                         statistics.record_slots),
             "for a longer window raise the recorder's buffer size"}};
}

}  // namespace eplb::check
