// Is a layout worth a trial on a server? Decided from scores on record slots that it was not fitted on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

// A layout that the proposed one has to beat. Each kind that it does not beat says that the gain over the others is not
// what it looks like: a placing that knows no counts has it too, or one without redundant slots.
struct Rival {
    enum class Kind { current, random, redundancy_0 };

    Kind kind = Kind::current;
    std::string name;                    // of the current one: "trivial", a file
    const LayoutScore* score = nullptr;  // over the record slots of the proposed one; null: an expert has no slot in it
};

struct Evidence {
    int record_slots = 0;             // non-zero ones of the counts, scored or not
    int distinct_record_slots = 0;    // the same, those with equal counts taken as one
    bool held_out = false;            // no scored record slot was fitted on
    std::vector<std::string> doubts;  // why the counts are no evidence, whatever the scores are
    // Of each scored record slot; those with one label have equal counts and are one observation. Empty: all differ.
    std::vector<int> kinds;
    const LayoutScore* proposed = nullptr;
    std::vector<Rival> rivals;  // at least one; the first is what the layout would replace
    std::uint64_t seed = 0;     // of the random half splits
};

// Gain 1 - proposed/rival of the step value, mean over the scored layers.
struct Comparison {
    Rival::Kind kind = Rival::Kind::current;
    std::string name;                   // "trivial", a file, "random", "redundancy-0"
    double step = 0;                    // of the rival
    double gain = 0;                    // over it
    std::optional<double> gain_spread;  // of the gain over the random half splits
    bool passed = false;                // at least min_gain and spread_factor times its spread
};

struct Verdict {
    Decision decision = Decision::insufficient_evidence;
    std::vector<std::string> reasons;         // one line each, the deciding ones first
    std::optional<double> gain, gain_spread;  // of the first comparison
    std::vector<Comparison> comparisons;      // in the order of the rivals; empty without evidence
    std::vector<int> worse_layers;            // whose step value grows over the first rival's, the largest growth first
};

// recommend_trial when every comparison passes, not_now when one does not.
Verdict judge(const Evidence& evidence);

// 1 - proposed/current of the mean over layers of sum_t max / sum_t mean, over chosen positions of the scored record
// slots. Layers without counts at these positions are left out. Empty when no layer has counts.
std::optional<double> step_gain(const StepLoads& current, const StepLoads& proposed, std::span<const int> positions);

}  // namespace eplb
