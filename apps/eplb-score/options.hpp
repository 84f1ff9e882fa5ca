// The flags of eplb-score, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common_options.hpp"
#include "core/count_options.hpp"
#include "core/record_split.hpp"
#include "evaluation/dispatch_input.hpp"
#include "score/layout_score.hpp"

namespace eplb {

enum class FailOn { step_mean, step_worst, window_mean, window_worst };

struct ScoreOptions {
    cli::CommonOptions common;
    std::string layout;
    CountOptions counts;
    std::optional<int> ranks;            // of the layout; default: as its manifest says
    std::optional<Holdout> holdout;      // default: as the manifest says when the layout was fitted on these counts
    std::optional<Part> part;            // default: holdout and fit, or all where nothing is held out
    DispatchOptions dispatch;            // at least one name
    bool sensitivity = false;            // also with one source rank that sends twice as much as the others
    std::vector<std::string> baselines;  // trivial, random, or a layout file
    std::string current = "trivial";     // what the verdict compares with: trivial or a layout file
    std::uint64_t seed = 0;
    bool per_layer = false;
    std::optional<double> fail_above;
    FailOn fail_on = FailOn::step_mean;
};

// Opens no file.
ScoreOptions parse_options(int argc, char** argv);

}  // namespace eplb
