// A token adds top-k to a row, so row totals divide by top-k (and by a constant repetition factor).
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/top_k_guess.hpp"
#include "check/wording.hpp"

namespace eplb::check {
namespace {

// Every total that divides by 6 divides by 3 as well, so that the flag alone cannot be caught out.
Findings contradicted(const CountStatistics& statistics, int top_k) {
    std::optional<int> guess = guess_top_k(statistics);
    std::string sign = "every row total is a multiple of {0} and no expert has more than 1/{0} of its row";
    if (!guess) {
        guess = top_k_ceiling(statistics);
        sign = "the hottest experts of many rows have exactly 1/{0} of their row and none has more";
    }
    if (!guess || *guess % top_k != 0 || *guess == top_k) return {};
    return {{Severity::warning, "TOP_K_CONTRADICTED", "",
             fmt::format("--top-k {}, but {}: tokens look routed to {} experts", top_k,
                         fmt::format(fmt::runtime(sign), *guess), *guess),
             fmt::format("say --top-k {}; {} is right only if every token was counted {} times", *guess, top_k,
                         *guess / top_k)}};
}

}  // namespace

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
    if (deviating == 0) return contradicted(statistics, top_k);
    return {{Severity::warning, "NOT_DIVISIBLE_BY_TOP_K", where,
             fmt::format("{}; {} of {} rows", first, deviating, rows),
             "check --top-k; else tokens were dropped while recording, or fused shared-expert columns are counted"}};
}

}  // namespace eplb::check
