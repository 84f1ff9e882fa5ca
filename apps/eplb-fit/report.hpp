// What eplb-fit did, and how it says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "curve.hpp"
#include "evaluation/count_input.hpp"
#include "evaluation/evaluation.hpp"
#include "fit/problem.hpp"
#include "layout_io/scenario.hpp"
#include "options.hpp"

namespace eplb {

// What replaces the layout in service.
struct Replacement {
    std::vector<bool> kept;  // [L]: the current row stays
    std::vector<int> moved;  // [L]: slots whose weights must be fetched
};

// The layout that was fitted, scored and written.
struct FittedLayout {
    Geometry geometry;
    std::vector<Subject> subjects;                // what it is compared with, and last the layout itself
    std::vector<std::vector<PartScore>> results;  // of each subject, the headline first
    std::optional<Replacement> replacement;       // with --current
    Verdict verdict;
    std::string against;  // "trivial", or the base name of the current layout
    // [L], max/mean, of the fitted record slots under the even split; empty unless the step value was the objective
    std::vector<double> step_lower_bound;
    Layout written;                      // the scored one, unless --refit-all
    std::optional<GuardFacts> guard;     // of the step objective
    std::optional<DispatchTable> table;  // of `written`, with --dispatch balanced
    std::vector<std::string> notes;
    std::string layout_sha256, map_hash, manifest_sha256;
    std::optional<std::string> table_sha256;
};

struct FitReport {
    const FitOptions* options = nullptr;
    const CountInput* input = nullptr;
    RecordSplit split;
    Scenario scenario;
    std::vector<Dispatch> dispatches;
    std::optional<FittedLayout> fitted;  // absent: --redundancy-curve alone
    std::optional<Curve> curve;
};

// How close the layout comes, on the record slots it was fitted on, to what no layout beats.
struct BoundSummary {
    int layers = 0, certified = 0;          // scored; within certified_gap of the lower bound
    double mean = 0, mean_lower_bound = 0;  // max/mean over the scored layers
    double mean_gap = 0, worst_gap = 0;     // value / lower bound - 1
    int worst_layer = 0;
};
inline constexpr double certified_gap = 1e-3;

// The results of a subject on the record slots that it was fitted on, the part fit or all, under the even split, which
// the bounds are for.
const PartScore& fitted_part(const std::vector<PartScore>& results);
BoundSummary summarize_gaps(const PartScore& fitted, double LayerBalance::*value,
                            const std::vector<double>& lower_bound);

// The cross-validated step value for record slots that were not fitted on. Below 16 fitted ones it is noise (on made-up
// counts it misses the measured value by .31 rms with fewer than 8) and is not told.
inline constexpr int least_expectation_slots = 16;
std::optional<double> expected_holdout(const GuardFacts& facts);

std::string report_json(const FitReport& report);
std::string report_text(const FitReport& report);

}  // namespace eplb
