#include "check/counts/mismatch_causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "check/grain.hpp"
#include "check/wording.hpp"
#include "core/counts.hpp"
#include "core/wide.hpp"

namespace eplb::check {
namespace {

using Cause = std::optional<std::string>;

std::int64_t window_total(const CountStatistics& statistics, int layer) {
    return statistics.layer_totals[static_cast<std::size_t>(layer)];
}

// The counted layer with the middle total of the window.
int middle_layer(const CountStatistics& statistics, std::vector<int> layers) {
    const auto middle = layers.begin() + static_cast<std::ptrdiff_t>(layers.size() / 2);
    std::nth_element(layers.begin(), middle, layers.end(), [&](int a, int b) {
        return std::pair(window_total(statistics, a), a) < std::pair(window_total(statistics, b), b);
    });
    return *middle;
}

// One row counts other passes than all others do.
Cause one_row(const CountStatistics& statistics, const LayerAgreement& agreement) {
    if (agreement.layers.size() < 3) return std::nullopt;  // of two nobody can say which one is wrong
    const RowTotals totals = row_totals_of(statistics);
    std::vector<std::int64_t> deviations(static_cast<std::size_t>(statistics.layers));
    std::vector<std::int64_t> row;
    for (const int slot : agreement.slots) {
        row.clear();
        for (const int layer : agreement.layers) row.push_back(totals.at(slot, layer));
        const auto middle = row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2);
        std::nth_element(row.begin(), middle, row.end());
        for (const int layer : agreement.layers) {
            const std::int64_t difference = totals.at(slot, layer) - *middle;
            deviations[static_cast<std::size_t>(layer)] += difference < 0 ? -difference : difference;
        }
    }
    const auto layer = static_cast<int>(std::max_element(deviations.begin(), deviations.end()) - deviations.begin());
    if (!agreement_of(totals, layer).agree()) return std::nullopt;
    const auto empty = std::count_if(agreement.slots.begin(), agreement.slots.end(),
                                     [&](int slot) { return totals.at(slot, layer) == 0; });
    const std::string leave_out = fmt::format("--drop-layers {} leaves it out", layer);
    if (empty > 0) {
        return fmt::format(
            "only layer {} deviates: it is zero in {} of the {} record slots, as a draft (MTP) layer is in passes that "
            "do not run it, or one that the recorder missed: {}",
            layer, empty, agreement.slots.size(), leave_out);
    }
    return fmt::format(
        "only layer {} deviates, the others agree: a draft (MTP) layer, or a row that other passes were counted into: "
        "{}",
        layer, leave_out);
}

// a / b is p / q, to a thousandth.
bool is_ratio(std::int64_t a, std::int64_t b, std::int64_t p, std::int64_t q) {
    const int128 left = static_cast<int128>(a) * q, right = static_cast<int128>(b) * p;
    return (left > right ? left - right : right - left) <= right / 1000;
}

// Every layer keeps, to a twentieth, its ratio to the middle one in record slots with 95 % of the counts.
bool constant_ratios(const CountStatistics& statistics, const LayerAgreement& agreement, int reference) {
    const RowTotals totals = row_totals_of(statistics);
    const std::int64_t reference_total = window_total(statistics, reference);
    std::int64_t unsteady = 0;
    for (const int slot : agreement.slots) {
        const std::int64_t here = totals.at(slot, reference);
        const bool steady = here > 0 && std::all_of(agreement.layers.begin(), agreement.layers.end(), [&](int layer) {
                                const int128 is = static_cast<int128>(totals.at(slot, layer)) * reference_total;
                                const int128 expected = static_cast<int128>(here) * window_total(statistics, layer);
                                return (is > expected ? is - expected : expected - is) <= expected / 20;
                            });
        if (!steady) unsteady += statistics.slot_totals[static_cast<std::size_t>(slot)];
    }
    return !ratio_greater(unsteady, agreement.total, 1, 20);
}

// Layers that count a fixed multiple, or each a fixed part, of the tokens of the others.
Cause fixed_ratio(const CountStatistics& statistics, const LayerAgreement& agreement) {
    constexpr std::int64_t most_top_k = 16, most_passes = 64;
    if (agreement.slots.size() < 2 || agreement.layers.size() < 3) return std::nullopt;
    const int reference = middle_layer(statistics, agreement.layers);
    if (!constant_ratios(statistics, agreement, reference)) return std::nullopt;
    const std::int64_t usual = window_total(statistics, reference);
    std::vector<int> others;
    for (const int layer : agreement.layers) {
        if (!is_ratio(window_total(statistics, layer), usual, 1, 1)) others.push_back(layer);
    }
    const auto all_are = [&](std::int64_t p, std::int64_t q) {
        return !others.empty() && std::all_of(others.begin(), others.end(), [&](int layer) {
            return is_ratio(window_total(statistics, layer), usual, p, q);
        });
    };
    const std::string names = number_ranges(others);
    for (std::int64_t passes = 2; passes <= most_passes; ++passes) {
        if (!all_are(passes, 1)) continue;
        return fmt::format(
            "layers {} count {} times the others in every record slot: draft or verify passes were counted into them; "
            "record without speculative decoding, or leave them out with --drop-layers",
            names, passes);
    }
    for (std::int64_t top_k = 2; top_k <= most_top_k; ++top_k) {
        const bool more = all_are(top_k + 1, top_k), fewer = all_are(top_k, top_k + 1);
        if (!more && !fewer) continue;
        return fmt::format(
            "layers {} count {}/{} of the others in every record slot: a fused shared expert is counted in some layers "
            "beside top-{}; export the routed experts only",
            names, more ? top_k + 1 : top_k, more ? top_k : top_k + 1, top_k);
    }
    if (!ratio_greater(agreement.window.difference(), agreement.window.high, 1, 20)) return std::nullopt;
    return fmt::format(
        "each layer keeps its own share of the tokens in every record slot: experts without computation (as in "
        "LongCat) take the rest, and then the totals are right");
}

// In every layer the same number of experts has all the counts: those that one rank holds.
Cause one_ranks_share(const CountContext& context, const LayerAgreement& agreement) {
    const CountStatistics& statistics = context.statistics;
    if (context.reduction == Reduction::per_rank) return std::nullopt;
    int hit = -1;
    for (const int layer : agreement.layers) {
        int in_layer = 0;
        for (int expert = 0; expert < statistics.experts; ++expert) {
            in_layer += statistics.expert_totals[statistics.cell(layer, expert)] != 0;
        }
        // With fewer than eight counts an expert some are missed by chance.
        const bool filled = window_total(statistics, layer) / 8 >= statistics.experts;
        if ((hit >= 0 && in_layer != hit) || 2 * in_layer > statistics.experts || !filled) return std::nullopt;
        hit = in_layer;
    }
    return fmt::format(
        "in every layer exactly {} of {} experts have counts: these are what one rank received; give the files of all "
        "ranks with --reduction per-rank",
        hit, statistics.experts);
}

// The window agrees and the record slots do not: they are parts of it, not passes.
Cause parts_of_one_window(const LayerAgreement& agreement) {
    if (agreement.window.differs() || agreement.slots.size() < 2) return std::nullopt;
    return fmt::format(
        "summed over the {} entries of the first axis the layers agree: the entries may be ranks of one window, "
        "not passes; for physical slots [ranks, layers, slots of a rank] give --recorded-layout FILE, for logical "
        "experts "
        "one file a rank with --reduction per-rank",
        agreement.slots.size());
}

Cause rounded(const CountContext& context) {
    const auto& maxima = context.statistics.row_maxima;
    const FloatPrecision* precision =
        passed_through(Counts({context.tensor}), *std::max_element(maxima.begin(), maxima.end()));
    if (!precision) return std::nullopt;
    return fmt::format("every count has at most {} significant bits: they went through {}; export integers",
                       precision->bits, name_of(precision->dtype));
}

// Received counts are padded to blocks in approximate recorder modes; without that sign small differences may be
// theirs.
Cause approximate(const CountContext& context, const LayerAgreement& agreement) {
    constexpr std::int64_t least_block = 8;
    const std::int64_t block = common_divisor(Counts({context.tensor}));
    if (block >= least_block) {
        return fmt::format(
            "all counts are multiples of {}: an approximate recorder mode (stat_approx) counts what ranks received, "
            "padded to blocks",
            block);
    }
    if (ratio_greater(agreement.window.difference(), agreement.window.high, 1, 20)) return std::nullopt;
    return "an approximate recorder mode (stat_approx) or padding makes differences of this size; else layers were "
           "recorded partly, under a wrong index or from different passes";
}

}  // namespace

RowTotals row_totals_of(const CountStatistics& statistics) {
    return {statistics.row_totals, statistics.record_slots, statistics.layers,
            static_cast<std::size_t>(statistics.layers), 1};
}

std::vector<std::string> mismatch_causes(const CountContext& context, const LayerAgreement& agreement) {
    const CountStatistics& statistics = context.statistics;
    std::vector<std::string> causes;
    const auto add = [&](Cause cause) {
        if (cause) causes.push_back(std::move(*cause));
        return cause.has_value();
    };
    if (!add(one_row(statistics, agreement))) add(fixed_ratio(statistics, agreement));
    add(one_ranks_share(context, agreement));
    add(parts_of_one_window(agreement));
    add(rounded(context));
    if (causes.empty()) add(approximate(context, agreement));
    return causes;
}

}  // namespace eplb::check
