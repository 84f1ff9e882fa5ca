// Routed expert ids [tokens, layers, top-k] have the axes of counts. In every row they are different from one another,
// and small; counts of so few experts would have met somewhere, and their layers would agree.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "check/counts/mismatch_causes.hpp"
#include "check/layer_agreement.hpp"
#include "core/counts.hpp"

namespace eplb::check {

Findings check_routed_ids(const CountContext& context) {
    constexpr int most_top_k = 64;
    constexpr std::int64_t most_experts = 4096, least_meetings = 16;
    const CountStatistics& statistics = context.statistics;
    if (statistics.total == 0 || statistics.experts < 2 || statistics.experts > most_top_k) return {};
    const auto& maxima = statistics.row_maxima;
    const std::int64_t largest = *std::max_element(maxima.begin(), maxima.end());
    if (largest < statistics.experts || largest >= most_experts) return {};
    // Pairs of values in a row that random numbers up to the largest would have equal.
    const auto pairs = std::int64_t{statistics.experts} * (statistics.experts - 1) / 2;
    const auto rows = static_cast<std::int64_t>(statistics.row_totals.size());
    if (rows * pairs / (largest + 1) < least_meetings) return {};
    if (agreement_of(row_totals_of(statistics)).agree()) return {};

    const Counts counts({context.tensor});
    std::vector<std::int64_t> row(static_cast<std::size_t>(statistics.experts));
    for (int slot = 0; slot < statistics.record_slots; ++slot) {
        for (int layer = 0; layer < statistics.layers; ++layer) {
            counts.read_row(slot, layer, row);
            std::sort(row.begin(), row.end());
            if (std::adjacent_find(row.begin(), row.end()) != row.end()) return {};
        }
    }
    return {{Severity::error, "ROUTED_IDS", "",
             fmt::format("the {} values of every row differ from one another and are at most {}: these are the ids of "
                         "routed experts [tokens, layers, top-{}], not counts",
                         statistics.experts, largest, statistics.experts),
             "give --format routed-ids to count them"}};
}

}  // namespace eplb::check
