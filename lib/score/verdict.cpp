#include "score/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/random.hpp"

namespace eplb {
namespace {

// Mean over the layers that have counts at the positions of sum_t max / sum_t mean.
std::optional<double> mean_step(const StepLoads& steps, std::span<const int> positions) {
    double total = 0;
    int scored = 0;
    for (int layer = 0; layer < steps.layers; ++layer) {
        double max = 0, mean = 0;
        for (const int position : positions) {
            max += steps.max[steps.at(layer, position)];
            mean += steps.mean[steps.at(layer, position)];
        }
        if (mean == 0) continue;
        total += max / mean;
        ++scored;
    }
    if (scored == 0) return std::nullopt;
    return total / scored;
}

// The scored positions by their counts: those of one label belong together. In the order of their first position.
std::vector<std::vector<int>> groups_of(const Evidence& evidence) {
    std::vector<std::vector<int>> groups;
    std::map<int, std::size_t> group_of;
    for (int position = 0; position < evidence.proposed->steps.slots; ++position) {
        const int kind = evidence.kinds.empty() ? position : evidence.kinds[static_cast<std::size_t>(position)];
        const auto [place, added] = group_of.emplace(kind, groups.size());
        if (added) groups.emplace_back();
        groups[place->second].push_back(position);
    }
    return groups;
}

// Random half splits of the groups (Fisher-Yates), both halves of each, as positions.
std::vector<std::vector<int>> random_halves(const Evidence& evidence) {
    std::vector<std::vector<int>> halves;
    const std::vector<std::vector<int>> groups = groups_of(evidence);
    Random random(stream_seed(evidence.seed, 0));
    for (int split = 0; split < half_splits; ++split) {
        std::vector<std::size_t> order(groups.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        for (std::size_t i = 0; i < order.size(); ++i) {
            std::swap(order[i], order[i + random.below(static_cast<std::uint32_t>(order.size() - i))]);
        }
        halves.resize(halves.size() + 2);
        for (std::size_t i = 0; i < order.size(); ++i) {
            auto& half = i < order.size() / 2 ? *(halves.end() - 2) : halves.back();
            half.insert(half.end(), groups[order[i]].begin(), groups[order[i]].end());
        }
    }
    return halves;
}

// Root mean square deviation of the gain over both halves of the splits. Both halves are used so that a single slot
// that makes the gain always shows: it is in one half and not in the other.
std::optional<double> gain_spread(const StepLoads& rival, const StepLoads& proposed,
                                  std::span<const std::vector<int>> halves) {
    std::vector<double> gains;
    for (const std::vector<int>& positions : halves) {
        const auto gain = step_gain(rival, proposed, positions);
        if (!gain) return std::nullopt;
        gains.push_back(*gain);
    }
    const auto n = static_cast<double>(gains.size());
    double mean = 0, squares = 0;
    for (const double gain : gains) mean += gain / n;
    for (const double gain : gains) squares += (gain - mean) * (gain - mean) / n;
    return std::sqrt(squares);
}

std::vector<int> worse_layers(const LayoutScore& current, const LayoutScore& proposed) {
    constexpr double rounding = 1e-9;
    std::vector<std::pair<double, int>> growths;
    for (std::size_t layer = 0; layer < current.layers.size(); ++layer) {
        if (!current.layers[layer] || !proposed.layers[layer]) continue;
        const double growth = proposed.layers[layer]->step / current.layers[layer]->step - 1;
        if (growth > rounding) growths.emplace_back(-growth, static_cast<int>(layer));
    }
    std::sort(growths.begin(), growths.end());
    std::vector<int> layers;
    for (const auto& [growth, layer] : growths) layers.push_back(layer);
    return layers;
}

std::string name_layers(const std::vector<int>& layers, const LayoutScore& current, const LayoutScore& proposed) {
    constexpr std::size_t shown = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(shown, layers.size()); ++i) {
        const auto layer = static_cast<std::size_t>(layers[i]);
        text += fmt::format("{}{} ({:.4f} -> {:.4f})", i == 0 ? "" : ", ", layer, current.layers[layer]->step,
                            proposed.layers[layer]->step);
    }
    if (layers.size() > shown) text += ", ...";
    return text;
}

std::string percent(double ratio) {
    return fmt::format("{:.2f} %", 100 * ratio);
}

std::string name_of(const Rival& rival) {
    switch (rival.kind) {
        case Rival::Kind::current:
            return rival.name;
        case Rival::Kind::random:
            return "random";
        case Rival::Kind::redundancy_0:
            return "redundancy-0";
    }
    return rival.name;
}

// "under 2.00 %", "under twice its spread of 8.33 % over 5 random half splits"; of a gain that passes, the spread.
std::string measure_of(const Comparison& comparison) {
    const std::string spread =
        fmt::format("{} over {} random half splits", percent(comparison.gain_spread.value_or(0)), half_splits);
    if (comparison.passed) return "spread " + spread;
    return comparison.gain < min_gain ? "under " + percent(min_gain) : "under twice its spread of " + spread;
}

// What the comparison says, in one line. `current`: the name of what the layout would replace.
std::string reason_of(const Comparison& comparison, const std::string& current) {
    const std::string gain = percent(comparison.gain), measure = measure_of(comparison);
    const std::string reaches = fmt::format("reaches {:.4f} on the same record slots", comparison.step);
    switch (comparison.kind) {
        case Rival::Kind::current:
            return fmt::format("gain {} in step balancedness, mean over layers, against {}{} {}", gain, comparison.name,
                               comparison.passed ? "," : " is", measure);
        case Rival::Kind::random:
            return fmt::format(
                "random placing {}: gain {} against it, {}{}", reaches, gain, measure,
                comparison.passed ? "" : fmt::format("; a gain over {}'s placing, not from the counts", current));
        case Rival::Kind::redundancy_0:
            return fmt::format("redundancy 0 {}: the redundant slots buy {}, {}", reaches, gain, measure);
    }
    return measure;
}

Comparison compare(const Rival& rival, const Evidence& evidence, std::span<const int> everything,
                   std::span<const std::vector<int>> halves) {
    const StepLoads &before = rival.score->steps, &after = evidence.proposed->steps;
    Comparison comparison;
    comparison.kind = rival.kind;
    comparison.name = name_of(rival);
    comparison.step = mean_step(before, everything).value_or(0);
    comparison.gain = step_gain(before, after, everything).value_or(0);
    comparison.gain_spread = gain_spread(before, after, halves);
    comparison.passed =
        comparison.gain >= min_gain && comparison.gain >= spread_factor * comparison.gain_spread.value_or(0);
    return comparison;
}

// Why nothing can be said, whatever the scores are.
std::vector<std::string> missing_evidence(const Evidence& evidence) {
    std::vector<std::string> reasons = evidence.doubts;
    if (evidence.distinct_record_slots < min_evidence_slots) {
        const std::string copies = evidence.distinct_record_slots < evidence.record_slots
                                       ? fmt::format(", {} distinct", evidence.distinct_record_slots)
                                       : "";
        reasons.push_back(fmt::format("non-zero record slots: {}{}, fewer than {}", evidence.record_slots, copies,
                                      min_evidence_slots));
    }
    if (!evidence.held_out) {
        reasons.push_back("no record slots were held out: the layout was fitted on what it is scored on");
    }
    if (evidence.proposed->layers_scored() == 0) reasons.push_back("no layer has counts in the scored record slots");
    if (!evidence.rivals.front().score) {
        reasons.push_back(fmt::format("{} leaves an expert without a slot", name_of(evidence.rivals.front())));
    }
    return reasons;
}

}  // namespace

std::string_view name_of(Decision decision) {
    switch (decision) {
        case Decision::recommend_trial:
            return "recommend-trial";
        case Decision::not_now:
            return "not-now";
        case Decision::insufficient_evidence:
            return "insufficient-evidence";
    }
    return "insufficient-evidence";
}

std::optional<double> step_gain(const StepLoads& current, const StepLoads& proposed, std::span<const int> positions) {
    const auto before = mean_step(current, positions), after = mean_step(proposed, positions);
    if (!before || !after) return std::nullopt;
    return 1 - *after / *before;
}

Verdict judge(const Evidence& evidence) {
    const LayoutScore& proposed = *evidence.proposed;
    const LayoutScore* current = evidence.rivals.front().score;
    Verdict verdict;
    std::vector<int> everything(static_cast<std::size_t>(proposed.steps.slots));
    std::iota(everything.begin(), everything.end(), 0);
    if (current) {
        verdict.gain = step_gain(current->steps, proposed.steps, everything);
        verdict.worse_layers = worse_layers(*current, proposed);
    }
    verdict.reasons = missing_evidence(evidence);
    if (!verdict.reasons.empty()) return verdict;

    const std::vector<std::vector<int>> halves = random_halves(evidence);
    for (const Rival& rival : evidence.rivals) {
        if (rival.score) verdict.comparisons.push_back(compare(rival, evidence, everything, halves));
    }
    verdict.gain_spread = verdict.comparisons.front().gain_spread;
    verdict.decision = Decision::recommend_trial;
    for (const bool passed : {false, true}) {  // what decided comes first
        for (const Comparison& comparison : verdict.comparisons) {
            if (comparison.passed != passed) continue;
            if (!passed) verdict.decision = Decision::not_now;
            verdict.reasons.push_back(reason_of(comparison, name_of(evidence.rivals.front())));
        }
    }
    if (!verdict.worse_layers.empty()) {
        verdict.reasons.push_back(fmt::format("{} of {} layers get worse: {}", verdict.worse_layers.size(),
                                              proposed.layers_scored(),
                                              name_layers(verdict.worse_layers, *current, proposed)));
    }
    return verdict;
}

}  // namespace eplb
