// Without the sum over ranks only the experts of one rank have counts: one contiguous block of E / R (seen in
// sgl-project/sglang PR 5524).
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_not_reduced(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    if (context.reduction == Reduction::per_rank) return {};
    int first = statistics.experts, last = -1, hit = 0;
    for (int expert = 0; expert < statistics.experts; ++expert) {
        bool used = false;
        for (int layer = 0; layer < statistics.layers && !used; ++layer) {
            used = statistics.expert_totals[statistics.cell(layer, expert)] != 0;
        }
        if (!used) continue;
        first = std::min(first, expert);
        last = expert;
        ++hit;
    }
    const int block = last - first + 1;
    // One hot expert is a skewed router, not a block. Without --ranks a block of 4 or more must speak for itself.
    const int least = context.options.ranks ? 2 : 4;
    if (block < least || block == statistics.experts || hit != block) return {};
    if (statistics.experts % block != 0 || first % block != 0) return {};
    const int ranks = statistics.experts / block;
    if (context.options.ranks && ranks != *context.options.ranks) return {};
    const bool stated = context.options.reduction == Reduction::reduced;
    return {{stated ? Severity::warning : Severity::error, "NOT_REDUCED", fmt::format("experts {}-{}", first, last),
             fmt::format("only these {} of {} experts have counts, in every layer: one rank's block of {} ranks", block,
                         statistics.experts, ranks),
             "the dump was not summed over the ranks; record in a mode that reduces, or sum the ranks' files. If the "
             "router really used only these, say --reduction reduced"}};
}

}  // namespace eplb::check
