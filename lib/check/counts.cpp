#include "check/counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "check/count_check.hpp"
#include "check/counts/checks.hpp"
#include "core/error.hpp"

namespace eplb {
namespace {

const std::vector<CountCheck>& count_table() {
    using enum CheckStage;
    using enum CheckSubject;
    static const std::vector<CountCheck> checks{
        {raw, file, {"TEMPORARY_FILE"}, "the name is not that of an unfinished output", check::check_file_name},
        {raw,
         file,
         {"REDUCTION_UNKNOWN", "REDUCTION_CONFLICT", "PER_RANK_COUNTS"},
         "it is stated whether the counts are summed over the ranks",
         check::check_reduction},
        {shape, file, {"BAD_SHAPE"}, "three axes of sound extents", check::check_shape},
        {axes,
         file,
         {"LAYERS_MISMATCH", "EXPERTS_MISMATCH"},
         "the layers and experts of the flags",
         check::check_geometry},
        {axes, file, {"REDUNDANCY_FOR_RANKS"}, "the redundancies that fit --ranks", check::check_ranks},
        {values,
         file,
         {"BOOLEAN_COUNTS", "FLOAT_COUNTS", "NEGATIVE_COUNT", "NAN_COUNT", "INFINITE_COUNT", "FRACTIONAL_COUNT",
          "COUNT_TOO_LARGE", "SUM_TOO_LARGE"},
         "every value is a whole number from 0, and the sum fits 63 bits",
         check::check_numbers},
        {sums, window, {"LEFT_OUT"}, "the record slots and layers that the flags leave out", check::check_left_out},
        {sums, window, {"EMPTY_COUNTS"}, "at least one count is not zero", check::check_empty},
        {traffic,
         window,
         {"UNFILLED_RECORD_SLOTS", "FULL_RING", "WINDOW_ORDER_KNOWN"},
         "how many record slots hold counts, and what their order means",
         check::check_record_slots},
        {traffic, window, {"SMALL_SAMPLE"}, "enough record slots for a judgement", check::check_sample_size},
        {traffic, window, {"DUPLICATE_RECORD_SLOTS"}, "no record slot repeats another", check::check_duplicate_slots},
        {traffic,
         window,
         {"LEADING_ZERO_LAYERS", "ZERO_LAYERS", "DENSE_LAYER_COUNTS"},
         "layers without counts, and dense layers with counts",
         check::check_zero_layers},
        {traffic,
         window,
         {"LAYER_TOTAL_MISMATCH"},
         "inside a record slot all layers have the same total",
         check::check_layer_totals},
        {traffic,
         window,
         {"DRAFT_PASSES_SUSPECTED"},
         "no layer counts a multiple of the others",
         check::check_draft_layer},
        {traffic, window, {"NOT_DIVISIBLE_BY_TOP_K"}, "row totals divide by --top-k", check::check_top_k},
        {traffic,
         window,
         {"EXPERT_ABOVE_TOKENS"},
         "no expert is hit more often than there are tokens (--top-k)",
         check::check_expert_above_tokens},
        {traffic, window, {"NOT_REDUCED"}, "not only one rank's block of experts has counts", check::check_not_reduced},
        {traffic, window, {"NEVER_HIT_EXPERTS"}, "experts without a count", check::check_never_hit},
        {traffic, window, {"UNEXPECTED_TOTAL"}, "the sum is the one of --expect-total", check::check_expected_total},
        {traffic, window, {"SUSPECT_PADDING"}, "no experts with the same large count everywhere", check::check_padding},
        {traffic, window, {"SHARED_EXPERT_SUSPECTED"}, "no expert that every token hits", check::check_shared_expert},
        {traffic, window, {"HALVES_DIFFER"}, "the two halves of the record slots show one load", check::check_drift},
        {traffic,
         window,
         {"OUTLIER_RECORD_SLOTS"},
         "no record slot with a large share of the counts is unlike all others",
         check::check_outlier_slots},
        {traffic,
         window,
         {"FORCED_ROUTING"},
         "passes and layers differ as those of a router do",
         check::check_forced_routing},
        {traffic, file, {"NO_SIDECAR"}, "the scenario is written down", check::check_scenario},
    };
    return checks;
}

// Nothing where the layers of a record slot disagree: those totals are not tokens x top-k.
// Else the gcd of all row totals, where at least 8 different ones leave no room for chance: random token counts share
// no factor, so what remains is top-k (times a constant repetition). It must allow for the largest cell: cell <= row
// total / top-k.
std::optional<int> guess_top_k(const CountStatistics& statistics) {
    constexpr std::size_t least_different = 8;
    constexpr std::int64_t largest_guess = 64;
    std::int64_t divisor = 0;
    std::set<std::int64_t> totals;
    const std::vector<int> layers = statistics.counted_layers();
    for (const int slot : statistics.filled) {
        const std::int64_t total = statistics.row_totals[statistics.row(slot, layers.front())];
        for (const int layer : layers) {
            if (statistics.row_totals[statistics.row(slot, layer)] != total) return std::nullopt;
        }
        divisor = std::gcd(divisor, total);
        totals.insert(total);
    }
    if (totals.size() < least_different || divisor > largest_guess) return std::nullopt;
    for (std::size_t row = 0; row < statistics.row_totals.size(); ++row) {
        if (statistics.row_maxima[row] > statistics.row_totals[row] / divisor) return std::nullopt;
    }
    return static_cast<int>(divisor);
}

}  // namespace

std::span<const CountCheck> count_checks() {
    return count_table();
}

void sort_by_severity(std::vector<Finding>& findings) {
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
}

namespace {

// One tensor on its way through the table.
struct CountRun {
    const std::string& path;
    const Tensor& tensor;
    const CountOptions& options;
    bool reduced_by_format, whole, alone, summed;  // whole: a window, else one rank's share of one
    CountReport& report;
    CountStatistics statistics = {};
    std::optional<Error> refused = {};

    // Runs the checks of one stage; false when one of them found an error.
    bool stage(CheckStage wanted) {
        const CountContext context{path,
                                   tensor,
                                   options,
                                   report.reduction,
                                   reduced_by_format,
                                   statistics,
                                   report.left_out,
                                   report.window ? &*report.window : nullptr,
                                   alone,
                                   summed,
                                   refused ? &*refused : nullptr};
        bool sound = true;
        for (const CountCheck& check : count_table()) {
            if (check.stage != wanted || (check.subject == CheckSubject::window ? !whole : summed)) continue;
            for (Finding& finding : check.run(context)) {
                sound = sound && finding.severity != Severity::error;
                report.findings.push_back(std::move(finding));
            }
        }
        return sound;
    }

    void all_stages() {
        stage(CheckStage::raw);
        if (stage(CheckStage::shape)) {
            report.record_slots = static_cast<int>(tensor.shape[0]);
            report.layers = static_cast<int>(tensor.shape[1]);
            report.experts = static_cast<int>(tensor.shape[2]);
            if (whole) {
                report.left_out =
                    left_out(options.selection, tensor, summed ? std::nullopt : std::optional(path), alone);
            }
            try {
                statistics = gather_statistics(tensor);
            } catch (const Error& error) {
                refused = error;
            }
            if (summed && refused) {
                report.findings.push_back(
                    {Severity::error, "SUM_TOO_LARGE", refused->where(), refused->message(),
                     "these are no counts of tokens; look at the type and byte order of the files"});
                return;
            }
            stage(CheckStage::axes);
            if (stage(CheckStage::values)) {
                if (stage(CheckStage::sums) && statistics.total != 0) {
                    stage(CheckStage::traffic);
                    if (whole) report.top_k_guess = guess_top_k(statistics);
                }
                report.statistics = std::move(statistics);
            }
        }
        sort_by_severity(report.findings);
    }
};

}  // namespace

CountReport check_counts(const std::string& path, const Tensor& tensor, Reduction by_format,
                         const CountOptions& options, std::optional<WindowFacts> window) {
    CountReport report;
    report.path = path;
    report.window = std::move(window);
    report.reduction = by_format != Reduction::unknown ? by_format : options.reduction;
    const bool whole = report.reduction != Reduction::per_rank, alone = options.files.size() <= 1;
    CountRun{path, tensor, options, by_format == Reduction::reduced, whole, alone, false, report}.all_stages();
    return report;
}

CountReport check_summed_counts(const Tensor& sum, const CountOptions& options, std::optional<WindowFacts> window) {
    CountReport report;
    report.window = std::move(window);
    report.reduction = Reduction::reduced;
    CountRun{report.path, sum, options, false, true, true, true, report}.all_stages();
    return report;
}

}  // namespace eplb
