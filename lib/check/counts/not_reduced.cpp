// Without the sum over ranks only the experts of one rank have counts: one contiguous block of E / R (seen in
// sgl-project/sglang PR 5524).
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_not_reduced(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
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
    // One hot expert is a skewed router, not a block. Where the number of ranks is not known a block of 4 or more must
    // speak for itself.
    const std::optional<int>& recorded = context.options.recorded_ranks;
    const int least = recorded ? 2 : 4;
    if (block < least || block == statistics.experts || hit != block) return {};
    if (statistics.experts % block != 0 || first % block != 0) return {};
    const int ranks = statistics.experts / block;
    if (context.summed) {
        // A set that is known to be whole has counts on these experts only because the router used no others.
        if (recorded || (context.window && !context.window->members.empty())) return {};
        return {{Severity::error, "NOT_REDUCED", fmt::format("experts {}-{}", first, last),
                 fmt::format("only these {} of {} experts have counts in the sum of the files, in every layer: a part "
                             "of the ranks' blocks",
                             block, statistics.experts),
                 "give the file of every rank"}};
    }
    if (recorded && ranks != *recorded) return {};
    const bool stated = context.options.reduction == Reduction::reduced;
    return {{stated ? Severity::warning : Severity::error, "NOT_REDUCED", fmt::format("experts {}-{}", first, last),
             fmt::format("only these {} of {} experts have counts, in every layer: one rank's block of {} ranks", block,
                         statistics.experts, ranks),
             "the dump was not summed over the ranks; record in a mode that reduces, or sum the ranks' files. If the "
             "router really used only these, say --reduction reduced"}};
}

}  // namespace eplb::check
