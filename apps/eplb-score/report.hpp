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

struct ScoreReport {
    const ScoreOptions* options = nullptr;
    const CountInput* input = nullptr;
    const LayoutInput* layout = nullptr;
    Holdout holdout = Holdout::interleave;
    RecordSplit split;
    std::vector<Dispatch> dispatches;
    std::vector<Subject> subjects;                // the layout, then the baselines
    std::vector<std::vector<PartScore>> results;  // of each subject, the headline first
    Verdict verdict;
    std::optional<Gate> gate;
    std::vector<std::string> notes;
};

std::string report_json(const ScoreReport& report);
std::string report_text(const ScoreReport& report);

}  // namespace eplb
