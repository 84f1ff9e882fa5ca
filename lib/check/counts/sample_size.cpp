// What can be concluded from so many record slots. Windows of 26 and 34 were called few by those who fitted on them;
// below 8 eplb-score and eplb-fit give no verdict.
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "core/equal_slots.hpp"

namespace eplb::check {

Findings check_sample_size(const CountContext& context) {
    if (!context.alone) return {};  // counted across files
    return small_sample(static_cast<int>(context.statistics.filled.size()), distinct(context.statistics.first_equal));
}

Findings small_sample(int filled, int distinct) {
    constexpr int few = 30, too_few = 8;
    if (distinct >= few || distinct == 0) return {};
    const std::string consequence = distinct == 1 ? "nothing can be held out to judge a layout on"
                                    : distinct < too_few
                                        ? fmt::format("below {} no verdict on a layout is given", too_few)
                                        : "differences between layouts are partly noise";
    return {{Severity::info, "SMALL_SAMPLE", "",
             fmt::format("{} record slot{} with counts{}: {}", filled, filled == 1 ? "" : "s",
                         distinct < filled ? fmt::format(", {} distinct", distinct) : "", consequence),
             fmt::format("record {} or more, or give several files", few)}};
}

}  // namespace eplb::check
