// Ones and zeros are a placement, "this rank holds this expert", far more often than counts. Passes of single tokens
// give ones and zeros too, and are counts: a token hits top-k different experts. Three things tell the two apart, none
// of which a few tokens can show:
//   the ones of every layer stand in the same columns, in at least four layers;
//   every expert of every layer is hit, though there are too few ones for that: with on average m of them an expert,
//   independent tokens miss a share of at least e^-m, 1 in 8 for m = 2 and 1 in 55 for m = 4;
//   rows hold more ones than a token has experts (32), so several tokens, which would have met on some expert.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "core/counts.hpp"
#include "core/wide.hpp"

namespace eplb::check {
namespace {

bool same_columns_in_all_layers(const CountContext& context) {
    constexpr std::size_t least_layers = 4;
    const CountStatistics& statistics = context.statistics;
    const std::vector<int> layers = statistics.counted_layers();
    if (layers.size() < least_layers) return false;
    const Counts counts({context.tensor});
    std::vector<std::int64_t> first(static_cast<std::size_t>(statistics.experts)), row(first.size());
    for (const int slot : statistics.filled) {
        counts.read_row(slot, layers.front(), first);
        for (const int layer : layers) {
            counts.read_row(slot, layer, row);
            if (row != first) return false;
        }
    }
    return true;
}

bool every_expert_with_few_ones(const CountStatistics& statistics) {
    const std::vector<int> layers = statistics.counted_layers();
    const auto cells = static_cast<std::int64_t>(layers.size()) * statistics.experts;
    for (const int layer : layers) {
        for (int expert = 0; expert < statistics.experts; ++expert) {
            if (statistics.expert_totals[statistics.cell(layer, expert)] == 0) return false;
        }
    }
    // At least eight cells would be missed.
    return (cells >= 64 && statistics.total <= 2 * cells) || (cells >= 512 && statistics.total <= 4 * cells);
}

bool rows_of_several_tokens(const CountStatistics& statistics) {
    constexpr std::int64_t most_top_k = 32, least_meetings = 16;
    // Two tokens with T / 2 of E experts each meet on T^2 / 4E of them on average; more tokens on more.
    std::int64_t squares = 0;
    for (const std::int64_t total : statistics.row_totals) {
        if (total > most_top_k) squares += total * total;  // a row of ones is at most as long as the experts
    }
    return squares / (4 * std::int64_t{statistics.experts}) >= least_meetings;
}

}  // namespace

Findings check_placement(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const auto& maxima = statistics.row_maxima;
    if (statistics.total == 0 || *std::max_element(maxima.begin(), maxima.end()) > 1) return {};
    std::string sign;
    if (same_columns_in_all_layers(context)) {
        sign = "they stand in the same columns in every layer";
    } else if (every_expert_with_few_ones(statistics)) {
        sign = "they hit every expert of every layer, few as they are";
    } else if (rows_of_several_tokens(statistics)) {
        sign = "rows hold more of them than a token has experts, and no expert twice";
    } else {
        return {};
    }
    return {{Severity::error, "PLACEMENT_MASK", "",
             fmt::format("no value is above 1, and {}: this says which rank holds which expert, not how often one was "
                         "used",
                         sign),
             "give expert counts; a placement is no load"}};
}

}  // namespace eplb::check
