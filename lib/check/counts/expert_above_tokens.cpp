// A token goes to an expert at most once, so a cell is at most row total / top-k.
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"
#include "core/counts.hpp"
#include "core/wide.hpp"

namespace eplb::check {

Findings check_expert_above_tokens(const CountContext& context) {
    if (!context.options.top_k) return {};
    const CountStatistics& statistics = context.statistics;
    const int top_k = *context.options.top_k;
    std::int64_t deviating = 0;
    int first_slot = 0, first_layer = 0;
    for (const int slot : statistics.filled) {
        for (int layer = 0; layer < statistics.layers; ++layer) {
            const std::size_t row = statistics.row(slot, layer);
            if (static_cast<int128>(statistics.row_maxima[row]) * top_k <= statistics.row_totals[row]) continue;
            if (deviating++ == 0) first_slot = slot, first_layer = layer;
        }
    }
    if (deviating == 0) return {};
    std::vector<std::int64_t> row(static_cast<std::size_t>(statistics.experts));
    Counts({context.tensor}).read_row(first_slot, first_layer, row);
    const std::size_t place = statistics.row(first_slot, first_layer);
    int expert = 0;
    while (row[static_cast<std::size_t>(expert)] != statistics.row_maxima[place]) ++expert;
    return {{Severity::error, "EXPERT_ABOVE_TOKENS", cell_place(first_slot, first_layer, expert),
             fmt::format("count {} is above the {} tokens of its row (total {} / top-k {}); {} row{} of this kind",
                         statistics.row_maxima[place], statistics.row_totals[place] / top_k,
                         statistics.row_totals[place], top_k, deviating, deviating == 1 ? "" : "s"),
             "check --top-k and the order of the axes; else some counts were summed twice"}};
}

}  // namespace eplb::check
