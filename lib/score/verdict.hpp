// Is a layout worth a trial on a server? Decided from scores on record slots that it was not fitted on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "score/layout_score.hpp"

namespace eplb {

enum class Decision { recommend_trial, not_now, insufficient_evidence };

std::string_view name_of(Decision decision);  // "recommend-trial", "not-now", "insufficient-evidence"

// Thresholds of the verdict.
// 8 record slots leave 4 to judge on and 2 in each random half: with fewer, the spread of the gain means nothing.
inline constexpr int min_evidence_slots = 8;
// A gain below 2 % of the step value is below what a collection window repeats to (and a static layout costs a
// restart).
inline constexpr double min_gain = 0.02;
// The gain over a random half of the record slots has about the standard error of the gain over all of them (each half
// has half the slots, and they are drawn without replacement), so twice the spread is about two standard errors.
inline constexpr int half_splits = 5;
inline constexpr double spread_factor = 2.0;

struct Evidence {
    int filled_record_slots = 0;           // non-zero ones of the whole file, scored or not
    bool held_out = false;                 // no scored record slot was fitted on
    std::string_view current_name;         // "trivial", a file: what the layout would replace
    const LayoutScore* current = nullptr;  // both over the same record slots
    const LayoutScore* proposed = nullptr;
    std::uint64_t seed = 0;  // of the random half splits
};

struct Verdict {
    Decision decision = Decision::insufficient_evidence;
    std::vector<std::string> reasons;   // one line each, the deciding ones first
    std::optional<double> gain;         // 1 - proposed/current of the step value, mean over the scored layers
    std::optional<double> gain_spread;  // of the gain over the random half splits
    std::vector<int> worse_layers;      // whose step value grows, the largest growth first
};

Verdict judge(const Evidence& evidence);

// 1 - proposed/current of the mean over layers of sum_t max / sum_t mean, over chosen positions of the scored record
// slots. Layers without counts at these positions are left out. Empty when no layer has counts.
std::optional<double> step_gain(const StepLoads& current, const StepLoads& proposed, std::span<const int> positions);

}  // namespace eplb
