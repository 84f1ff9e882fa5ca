// A token adds top-k to a row, so row totals divide by top-k (and by a constant repetition factor).
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

Findings check_top_k(const CountContext& context) {
    if (!context.options.top_k) return {};
    const CountStatistics& statistics = context.statistics;
    const int top_k = *context.options.top_k;
    std::int64_t rows = 0, deviating = 0;
    std::string where, first;
    for (const int slot : statistics.filled) {
        for (const int layer : statistics.counted_layers()) {
            const std::int64_t total = statistics.row_totals[statistics.row(slot, layer)];
            ++rows;
            if (total % top_k == 0) continue;
            if (deviating++ == 0) {
                where = row_place(slot, layer);
                first = fmt::format("{} leaves {} over after division by top-k {}", total, total % top_k, top_k);
            }
        }
    }
    if (deviating == 0) return {};
    return {{Severity::warning, "NOT_DIVISIBLE_BY_TOP_K", where,
             fmt::format("{}; {} of {} rows", first, deviating, rows),
             "check --top-k; else tokens were dropped while recording, or fused shared-expert columns are counted"}};
}

}  // namespace eplb::check
