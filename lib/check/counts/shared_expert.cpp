// A fused shared expert adds a column that every token hits, so it equals the row's token count (seen in
// sgl-project/sglang PR 25367).
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_shared_expert(const CountContext& context) {
    constexpr std::size_t least_rows = 8;  // a few tiny rows can look like this by chance
    const CountStatistics& statistics = context.statistics;
    const std::vector<int> layers = statistics.counted_layers();
    // Every row's largest cell must be the same whole fraction of its total: 1 / (experts a token is counted for).
    std::int64_t fraction = 0;
    std::size_t rows = 0;
    std::vector<std::int64_t> maxima(static_cast<std::size_t>(statistics.layers));
    for (const int slot : statistics.filled) {
        for (const int layer : layers) {
            const std::size_t row = statistics.row(slot, layer);
            if (statistics.row_totals[row] == 0) continue;
            if (statistics.row_totals[row] % statistics.row_maxima[row] != 0) return {};
            const std::int64_t quotient = statistics.row_totals[row] / statistics.row_maxima[row];
            if (rows++ == 0) fraction = quotient;
            if (quotient != fraction || fraction < 2) return {};
            maxima[static_cast<std::size_t>(layer)] += statistics.row_maxima[row];
        }
    }
    if (rows < least_rows) return {};
    for (int expert = statistics.experts - 1; expert >= 0; --expert) {
        bool everywhere = true;
        for (const int layer : layers) {
            everywhere = everywhere && statistics.expert_totals[statistics.cell(layer, expert)] ==
                                           maxima[static_cast<std::size_t>(layer)];
        }
        if (!everywhere) continue;
        return {{Severity::warning, "SHARED_EXPERT_SUSPECTED", fmt::format("expert {}", expert),
                 fmt::format("every token hits it in every layer: its count is 1/{} of each row's total", fraction),
                 "a fused shared expert is counted as a routed one; export the routed experts only"}};
    }
    return {};
}

}  // namespace eplb::check
