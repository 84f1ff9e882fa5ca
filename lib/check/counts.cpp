#include "check/counts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "check/count_check.hpp"
#include "check/counts/checks.hpp"
#include "check/top_k_guess.hpp"
#include "check/variation.hpp"
#include "core/error.hpp"
#include "core/record_split.hpp"

namespace eplb {
namespace {

// Why an error is binding.
constexpr std::string_view no_counts = "values that are no counts cannot be fitted";
constexpr std::string_view nothing = "there is nothing to fit";
constexpr std::string_view contradiction = "a flag contradicts the file: change or drop that flag";

// Plain codes are errors that --accept can turn into warnings.
const std::vector<CountCheck>& count_table() {
    using enum CheckStage;
    using enum CheckSubject;
    using enum Severity;
    static const std::vector<CountCheck> checks{
        {raw,
         file,
         {{"TEMPORARY_FILE", warning}},
         "the name is not that of an unfinished output",
         check::check_file_name},
        {raw,
         file,
         {{"REDUCTION_UNKNOWN", info}, {"REDUCTION_CONFLICT", error, contradiction}, {"PER_RANK_COUNTS", warning}},
         "it is stated whether the counts are summed over the ranks",
         check::check_reduction},
        {shape,
         file,
         {{"BAD_SHAPE", error, "an array of another shape holds no counts"}},
         "three axes of sound extents",
         check::check_shape},
        {axes,
         file,
         {{"LAYERS_MISMATCH", error, contradiction}, {"EXPERTS_MISMATCH", error, contradiction}},
         "the layers and experts of the flags",
         check::check_geometry},
        {axes, file, {{"REDUNDANCY_FOR_RANKS", info}}, "the redundancies that fit --ranks", check::check_ranks},
        {values,
         file,
         {{"BOOLEAN_COUNTS", error, no_counts},
          {"FLOAT_COUNTS", info},
          {"NEGATIVE_COUNT", error, no_counts},
          {"NAN_COUNT", error, no_counts},
          {"INFINITE_COUNT", error, no_counts},
          {"FRACTIONAL_COUNT", error, no_counts},
          {"COUNT_TOO_LARGE", error, no_counts},
          {"SUM_TOO_LARGE", error, no_counts}},
         "every value is a whole number from 0, and the sum fits 63 bits",
         check::check_numbers},
        {sums,
         window,
         {{"LEFT_OUT", info}},
         "the record slots and layers that the flags leave out",
         check::check_left_out},
        {sums, window, {{"EMPTY_COUNTS", error, nothing}}, "at least one count is not zero", check::check_empty},
        {sums,
         window,
         {{"PLACEMENT_MASK"}},
         "the values are not the ones and zeros of a placement",
         check::check_placement},
        {sums, window, {{"ROUTED_IDS"}}, "the values are not the ids of routed experts", check::check_routed_ids},
        {traffic,
         window,
         {{"UNFILLED_RECORD_SLOTS", info}, {"FULL_RING", info}, {"WINDOW_ORDER_KNOWN", info}},
         "how many record slots hold counts, and what their order means",
         check::check_record_slots},
        {traffic, file, {{"ROUNDED_COUNTS", warning}}, "no float type has rounded the counts", check::check_rounding},
        {traffic, window, {{"SMALL_SAMPLE", info}}, "enough record slots for a judgement", check::check_sample_size},
        {traffic,
         window,
         {{"DUPLICATE_RECORD_SLOTS", warning}},
         "no record slot repeats another",
         check::check_duplicate_slots},
        {traffic,
         window,
         {{"LEADING_ZERO_LAYERS", info}, {"ZERO_LAYERS"}, {"DENSE_LAYER_COUNTS", error, contradiction}},
         "layers without counts, and dense layers with counts",
         check::check_zero_layers},
        {traffic, window, {{"LAYER_TOTAL_MISMATCH"}}, "all layers route the same tokens", check::check_layer_totals},
        {traffic,
         window,
         {{"DRAFT_PASSES_SUSPECTED", warning}},
         "no layer counts a multiple of the others",
         check::check_draft_layer},
        {traffic,
         window,
         {{"NOT_DIVISIBLE_BY_TOP_K", warning}, {"TOP_K_CONTRADICTED", warning}},
         "row totals divide by --top-k, and by no multiple of it",
         check::check_top_k},
        {traffic,
         window,
         {{"EXPERT_ABOVE_TOKENS", error, contradiction}},
         "no expert is hit more often than there are tokens (--top-k)",
         check::check_expert_above_tokens},
        {traffic,
         window,
         {{"NOT_REDUCED"}},
         "not only one rank's block of experts has counts",
         check::check_not_reduced},
        {traffic, window, {{"NEVER_HIT_EXPERTS", info}}, "experts without a count", check::check_never_hit},
        {traffic,
         window,
         {{"UNEXPECTED_TOTAL", warning}},
         "the sum is the one of --expect-total",
         check::check_expected_total},
        {traffic,
         window,
         {{"SUSPECT_PADDING", warning}},
         "no experts with the same large count everywhere",
         check::check_padding},
        {traffic,
         window,
         {{"SHARED_EXPERT_SUSPECTED", warning}},
         "no expert that every token hits",
         check::check_shared_expert},
        {traffic,
         window,
         {{"HALVES_DIFFER", warning}},
         "the two halves of the record slots show one load",
         check::check_drift},
        {traffic,
         window,
         {{"OUTLIER_RECORD_SLOTS", warning}},
         "no record slot with a large share of the counts is unlike all others",
         check::check_outlier_slots},
        {traffic,
         window,
         {{"FORCED_ROUTING", warning}},
         "passes and layers differ as those of a router do",
         check::check_forced_routing},
        {traffic, file, {{"NO_SIDECAR", info}}, "the scenario is written down", check::check_scenario},
    };
    return checks;
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
            std::vector<Finding> found = check.run(context);
            accept_findings(found, options.accepted);
            for (Finding& finding : found) {
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
                    if (options.files.size() > 1) {
                        report.alternate_variation = median_variation(
                            tensor, statistics,
                            split_record_slots(statistics.filled, Holdout::interleave, statistics.first_equal));
                    }
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
