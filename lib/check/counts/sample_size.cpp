// What can be concluded from so many record slots. Windows of 26 and 34 were called few by those who fitted on them;
// below 8 eplb-score and eplb-fit give no verdict.
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_sample_size(const CountContext& context) {
    if (context.options.files.size() > 1) return {};  // counted across files
    return small_sample(context.statistics.filled.size());
}

Findings small_sample(std::size_t filled) {
    constexpr std::size_t few = 30, too_few = 8;
    if (filled >= few || filled == 0) return {};
    const std::string consequence = filled == 1 ? "nothing can be held out to judge a layout on"
                                    : filled < too_few
                                        ? fmt::format("below {} no verdict on a layout is given", too_few)
                                        : "differences between layouts are partly noise";
    return {{Severity::info, "SMALL_SAMPLE", "",
             fmt::format("{} record slot{} with counts: {}", filled, filled == 1 ? "" : "s", consequence),
             fmt::format("record {} or more, or give several files", few)}};
}

}  // namespace eplb::check
