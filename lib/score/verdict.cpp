#include "score/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// The positions 0..n-1 in a random order (Fisher-Yates).
std::vector<int> shuffled(int n, Random& random) {
    std::vector<int> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), 0);
    for (std::size_t i = 0; i < positions.size(); ++i) {
        std::swap(positions[i], positions[i + random.below(static_cast<std::uint32_t>(positions.size() - i))]);
    }
    return positions;
}

// Root mean square deviation of the gain over both halves of random half splits of the scored record slots. Both
// halves are used so that a single slot that makes the gain always shows: it is in one half and not in the other.
std::optional<double> gain_spread(const Evidence& evidence) {
    Random random(stream_seed(evidence.seed, 0));
    std::vector<double> gains;
    for (int i = 0; i < half_splits; ++i) {
        const std::vector<int> order = shuffled(evidence.current->steps.slots, random);
        const auto half = std::span(order).first(order.size() / 2), rest = std::span(order).subspan(half.size());
        for (const auto positions : {half, rest}) {
            const auto gain = step_gain(evidence.current->steps, evidence.proposed->steps, positions);
            if (!gain) return std::nullopt;
            gains.push_back(*gain);
        }
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

std::string name_layers(const Verdict& verdict, const Evidence& evidence) {
    constexpr std::size_t shown = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(shown, verdict.worse_layers.size()); ++i) {
        const auto layer = static_cast<std::size_t>(verdict.worse_layers[i]);
        text += fmt::format("{}{} ({:.4f} -> {:.4f})", i == 0 ? "" : ", ", layer, evidence.current->layers[layer]->step,
                            evidence.proposed->layers[layer]->step);
    }
    if (verdict.worse_layers.size() > shown) text += ", ...";
    return text;
}

std::string percent(double ratio) {
    return fmt::format("{:.2f} %", 100 * ratio);
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
    Verdict verdict;
    std::vector<int> everything(static_cast<std::size_t>(evidence.current->steps.slots));
    std::iota(everything.begin(), everything.end(), 0);
    verdict.gain = step_gain(evidence.current->steps, evidence.proposed->steps, everything);
    verdict.worse_layers = worse_layers(*evidence.current, *evidence.proposed);
    const auto decide = [&](Decision decision, std::string reason) {
        verdict.decision = decision;
        verdict.reasons.push_back(std::move(reason));
    };
    if (evidence.filled_record_slots < min_evidence_slots) {
        decide(Decision::insufficient_evidence, fmt::format("non-zero record slots: {}, fewer than {}",
                                                            evidence.filled_record_slots, min_evidence_slots));
    }
    if (!evidence.held_out) {
        decide(Decision::insufficient_evidence,
               "no record slots were held out: the layout was fitted on what it is "
               "scored on");
    }
    if (!verdict.gain) decide(Decision::insufficient_evidence, "no layer has counts in the scored record slots");
    if (!verdict.reasons.empty()) return verdict;

    verdict.gain_spread = gain_spread(evidence);
    const std::string against = fmt::format("step balancedness, mean over layers, against {}", evidence.current_name);
    if (*verdict.gain < min_gain) {
        decide(Decision::not_now,
               fmt::format("gain {} in {} is under {}", percent(*verdict.gain), against, percent(min_gain)));
    } else if (verdict.gain_spread && *verdict.gain < spread_factor * *verdict.gain_spread) {
        decide(Decision::not_now,
               fmt::format("gain {} in {} is under twice its spread of {} over {} random half splits",
                           percent(*verdict.gain), against, percent(*verdict.gain_spread), half_splits));
    }
    if (verdict.reasons.empty()) {
        decide(Decision::recommend_trial,
               fmt::format("gain {} in {}, spread {} over {} random half splits", percent(*verdict.gain), against,
                           percent(verdict.gain_spread.value_or(0)), half_splits));
    }
    if (!verdict.worse_layers.empty()) {
        verdict.reasons.push_back(fmt::format("{} of {} layers get worse: {}", verdict.worse_layers.size(),
                                              evidence.proposed->layers_scored(), name_layers(verdict, evidence)));
    }
    return verdict;
}

}  // namespace eplb
