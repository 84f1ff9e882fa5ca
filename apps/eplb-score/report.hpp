// What eplb-score found, and how it says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluation/count_input.hpp"
#include "evaluation/evaluation.hpp"
#include "evaluation/layout_input.hpp"
#include "options.hpp"

namespace eplb {

// The answer to --fail-above.
struct Gate {
    bool passed = false;
    std::string reason;  // one line
};

// How much one busy source rank costs.
struct Sensitivity {
    std::string dispatch;
    Part part = Part::all;
    int rank = 0;                   // the source rank whose double traffic hurts most
    double step_max_over_mean = 0;  // mean over the scored layers
};

struct ScoreReport {
    const ScoreOptions* options = nullptr;
    const CountInput* input = nullptr;
    const LayoutInput* layout = nullptr;
    Holdout holdout = Holdout::interleave;
    RecordSplit split;
    std::vector<Dispatch> dispatches;
    std::vector<Subject> subjects;                // the layout, then the baselines
    std::vector<std::vector<PartScore>> results;  // of each subject, the headline first
    std::vector<Sensitivity> sensitivities;       // of each dispatch, with --sensitivity
    Verdict verdict;
    std::optional<Gate> gate;
    std::vector<std::string> notes;
};

std::string report_json(const ScoreReport& report);
std::string report_text(const ScoreReport& report);

}  // namespace eplb
