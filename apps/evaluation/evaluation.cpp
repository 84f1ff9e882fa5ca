#include "evaluation/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "check/layout.hpp"
#include "core/equal_slots.hpp"
#include "core/error.hpp"
#include "core/parallel_loop.hpp"
#include "score/bounds.hpp"

namespace eplb {
namespace {

bool covers_every_expert(const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const std::vector<int> replicas = replica_counts(layout.row(layer), geometry.experts);
        if (std::find(replicas.begin(), replicas.end(), 0) != replicas.end()) return false;
    }
    return true;
}

// [L], of the counts of these record slots.
std::vector<double> window_bounds(const Counts& counts, std::span<const int> slots, const Geometry& geometry,
                                  int threads) {
    std::vector<double> bounds(static_cast<std::size_t>(counts.layers()));
    for_each_index(counts.layers(), threads, [&](int layer) {
        const std::vector<std::int64_t> totals = gather(counts, layer, slots).expert_totals();
        bounds[static_cast<std::size_t>(layer)] = window_lower_bound(totals, geometry.ranks, geometry.slots_per_rank);
    });
    return bounds;
}

bool intersect(const std::vector<int>& a, const std::vector<int>& b) {
    return std::any_of(a.begin(), a.end(), [&](int slot) { return std::binary_search(b.begin(), b.end(), slot); });
}

// Why the counts are no evidence, whatever a layout makes of them.
std::vector<std::string> doubts_about(const CountInput& input, int layers_scored) {
    std::vector<std::string> doubts;
    if (2 * layers_scored < input.layers.expected) {
        doubts.push_back(fmt::format("layers scored: {}, fewer than half of the {} that should have counts",
                                     layers_scored, input.layers.expected));
    }
    const auto forced = [](const std::vector<Finding>& findings) {
        return std::any_of(findings.begin(), findings.end(),
                           [](const Finding& finding) { return finding.code == "FORCED_ROUTING"; });
    };
    const auto of_file = [&](const CountReport& report) { return forced(report.findings); };
    if (forced(input.findings) || std::any_of(input.reports.begin(), input.reports.end(), of_file)) {
        doubts.push_back(
            "the routing was forced or simulated (FORCED_ROUTING): the counts show no skew of real traffic");
    }
    return doubts;
}

}  // namespace

Subject make_subject(std::string name, Layout layout, std::optional<std::vector<int>> fitted) {
    std::vector<Finding> violations = check_layout(layout);
    return {std::move(name), std::move(layout), std::move(violations), std::move(fitted)};
}

std::vector<Part> parts_of(const RecordSplit& split, std::optional<Part> wanted) {
    if (wanted) {
        if (record_slots_of(split, *wanted).empty()) {
            throw Error(ErrorCode::usage, "--part", fmt::format("the part {} has no record slot", name_of(*wanted)),
                        "with --holdout none, or one non-zero record slot, there is only the part all");
        }
        return {*wanted};
    }
    if (split.holdout.empty()) return {Part::all};
    return {Part::holdout, Part::fit};
}

std::vector<std::vector<PartScore>> evaluate(const Counts& counts, const RecordSplit& split,
                                             std::span<const Part> parts, std::span<const Subject> subjects,
                                             std::span<const Dispatch> dispatches, int threads) {
    struct Job {
        std::size_t subject;
        std::string dispatch;
        ReplicaShares shares;
        double largest_share;
    };
    std::vector<Job> jobs;
    for (std::size_t subject = 0; subject < subjects.size(); ++subject) {
        if (!covers_every_expert(subjects[subject].layout)) continue;
        for (const Dispatch& dispatch : dispatches) {
            if (dispatch.subject && *dispatch.subject != subjects[subject].name) continue;
            ReplicaShares shares = replica_shares(*dispatch.model, subjects[subject].layout, dispatch.context);
            const double largest = replica_share_max_over_mean(subjects[subject].layout, shares);
            jobs.push_back({subject, dispatch.label, std::move(shares), largest});
        }
    }
    std::vector<Placement> placements;
    for (const Job& job : jobs) placements.push_back({&subjects[job.subject].layout, &job.shares});

    std::vector<std::vector<PartScore>> by_part;  // [part][job]
    for (const Part part : parts) {
        const std::vector<int> slots = record_slots_of(split, part);
        std::vector<LayoutScore> scores = score_layouts(counts, slots, placements, threads);
        auto& results = by_part.emplace_back();
        Geometry bounded;
        std::vector<double> bounds;
        for (std::size_t index = 0; index < jobs.size(); ++index) {
            const Subject& subject = subjects[jobs[index].subject];
            if (subject.layout.geometry() != bounded) {  // most subjects share one geometry
                bounded = subject.layout.geometry();
                bounds = window_bounds(counts, slots, bounded, threads);
            }
            PartScore result{jobs[index].dispatch,     part, {}, std::move(scores[index]), {}, bounds,
                             jobs[index].largest_share};
            if (subject.fitted) result.in_sample = intersect(slots, *subject.fitted);
            result.summary = summarize(result.score);
            results.push_back(std::move(result));
        }
    }
    std::vector<std::vector<PartScore>> by_subject(subjects.size());
    for (std::size_t index = 0; index < jobs.size(); ++index) {
        for (auto& results : by_part) by_subject[jobs[index].subject].push_back(std::move(results[index]));
    }
    return by_subject;
}

Evidence evidence_on(const CountInput& input, const RecordSplit& split, const PartScore& proposed, std::uint64_t seed) {
    Evidence evidence;
    evidence.record_slots = static_cast<int>(input.filled.size());
    evidence.distinct_record_slots = distinct(input.first_equal);
    evidence.held_out = proposed.in_sample != true;
    evidence.doubts = doubts_about(input, proposed.score.layers_scored());
    for (const int slot : record_slots_of(split, proposed.part)) {
        const auto position = std::lower_bound(input.filled.begin(), input.filled.end(), slot) - input.filled.begin();
        evidence.kinds.push_back(input.first_equal[static_cast<std::size_t>(position)]);
    }
    evidence.proposed = &proposed.score;
    evidence.seed = seed;
    return evidence;
}

Rival make_rival(Rival::Kind kind, std::string name, const std::vector<PartScore>& results) {
    return {kind, std::move(name), results.empty() ? nullptr : &results.front().score};
}

}  // namespace eplb
