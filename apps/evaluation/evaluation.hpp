// Scores of one or several layouts under dispatch models on the parts of a split: what eplb-fit and eplb-score report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "core/finding.hpp"
#include "core/layout.hpp"
#include "core/record_split.hpp"
#include "dispatch/model.hpp"
#include "evaluation/count_input.hpp"
#include "score/layout_score.hpp"
#include "score/summary.hpp"
#include "score/verdict.hpp"

namespace eplb {

// A layout to score.
struct Subject {
    std::string name;  // "layout", "trivial", "random", or the file of a baseline
    Layout layout;
    std::vector<Finding> violations;         // what makes it illegal; empty: legal
    std::optional<std::vector<int>> fitted;  // record slots that it was fitted on, ascending; absent: not known

    bool valid() const { return violations.empty(); }
};

// A subject whose legality is checked here.
Subject make_subject(std::string name, Layout layout, std::optional<std::vector<int>> fitted);

// A dispatch model with what it needs to know.
struct Dispatch {
    const DispatchModel* model = nullptr;
    DispatchContext context;
    std::string label;                           // how reports call it
    std::optional<std::string> subject;          // the only subject it can be asked for: a table is made for one layout
    std::shared_ptr<const DispatchTable> table;  // what context.table points to
};

struct PartScore {
    std::string dispatch;  // label of the dispatch
    Part part = Part::all;
    std::optional<bool> in_sample;  // was the subject fitted on one of these record slots? absent: not known
    LayoutScore score;
    ScoreSummary summary;
    std::vector<double> window_lower_bound;  // [L], max/mean that no layout of this geometry beats; 1 without counts
    double replica_share_max_over_mean = 1;  // the busiest replica's share over the even share of its expert
};

// The parts a report shows: holdout (the headline) and fit, or all where nothing is held out. Throws Error{usage} when
// the wanted part is empty.
std::vector<Part> parts_of(const RecordSplit& split, std::optional<Part> wanted);

// The scores of every subject: for each dispatch every part, in the order given. Empty for a subject that leaves an
// expert without a slot: traffic that goes nowhere has no score.
std::vector<std::vector<PartScore>> evaluate(const Counts& counts, const RecordSplit& split,
                                             std::span<const Part> parts, std::span<const Subject> subjects,
                                             std::span<const Dispatch> dispatches, int threads);

// What the record slots are worth for a verdict on a layout with this score; the rivals are for the caller to add.
Evidence evidence_on(const CountInput& input, const RecordSplit& split, const PartScore& proposed, std::uint64_t seed);

// `results`: of the rival; the first one, the headline, is compared.
Rival make_rival(Rival::Kind kind, std::string name, const std::vector<PartScore>& results);

}  // namespace eplb
