// Summaries over the scored layers of a layout.
#pragma once

#include <span>
#include <vector>

#include "score/layout_score.hpp"

namespace eplb {

enum class BadTail { high, low };

// Nearest-rank percentiles, counted from the good end to the bad one: p95 is the value that 95 % of the layers are no
// worse than, and worst the last one. NaN when there is no value.
struct Percentiles {
    double mean = 0, median = 0, p95 = 0, worst = 0;
};

Percentiles percentiles(std::vector<double> values, BadTail bad_tail);

// Both directions, since both are in use: max/mean (>= 1, large is bad) and mean/max (<= 1, small is bad). The mean of
// the one is not the reciprocal of the mean of the other.
struct ScoreSummary {
    Percentiles step_max_over_mean, step_mean_over_max, window_max_over_mean, window_mean_over_max;
};

// Over the layers that have counts.
ScoreSummary summarize(const LayoutScore& score);

}  // namespace eplb
