#include "fit/cross_validation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/parallel_loop.hpp"
#include "core/random.hpp"
#include "fit/peaks.hpp"
#include "fit/window.hpp"

namespace eplb {
namespace {

constexpr std::size_t validation_folds = 4, least_layers = 4, most_layers = 24;
constexpr WindowGoal quick_window{1e-3, 0};      // what the quick steps reach: enough to compare with
constexpr std::uint64_t seed_offset = 1u << 20;  // beyond every layer: other random numbers than the fit itself

LayerCounts part_of(const LayerCounts& counts, std::size_t fold, std::size_t fold_count, bool inside) {
    LayerCounts part{0, counts.experts, {}};
    std::size_t position = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        if (counts.slot_total(slot) == 0 || (position++ % fold_count == fold) != inside) continue;
        const auto row = counts.row(slot);
        part.values.insert(part.values.end(), row.begin(), row.end());
        ++part.slots;
    }
    return part;
}

}  // namespace

std::optional<CrossValidation> cross_validate(const FitProblem& problem, const StepPlan& plan, Work work,
                                              std::span<const StepRow> rows) {
    if (plan.facts.record_slots < 3) return std::nullopt;
    const int ranks = problem.geometry.ranks, slots_per_rank = problem.geometry.slots_per_rank;
    const std::size_t fold_count =
        std::min<std::size_t>(validation_folds, static_cast<std::size_t>(plan.facts.record_slots));
    std::vector<std::size_t> fitted;
    double sum = 0;
    for (std::size_t layer = 0; layer < rows.size(); ++layer) {
        if (rows[layer].row.empty()) continue;
        fitted.push_back(layer);
        sum += rows[layer].step;
    }
    if (fitted.empty()) return std::nullopt;

    struct Score {
        double gap = 0, excess = 0;
    };
    const std::size_t sampled = std::min(fitted.size(), std::clamp(fitted.size() / 3, least_layers, most_layers));
    std::vector<std::optional<Score>> scores(sampled);
    for_each_index(static_cast<int>(sampled), problem.threads, [&](int index) {
        const auto i = static_cast<std::size_t>(index), layer = fitted[i * fitted.size() / sampled];
        const LayerCounts kept = part_of(problem.layers[layer], i % fold_count, fold_count, false);
        const LayerCounts held = part_of(problem.layers[layer], i % fold_count, fold_count, true);
        if (kept.slots == 0 || held.slots == 0) return;
        const auto seed = stream_seed(problem.seed, seed_offset + layer);
        const auto peaks = kept.slots > 1 ? peak_weights(kept) : std::vector<double>{};
        const auto window = fit_window_row(kept.expert_totals(), peaks, ranks, slots_per_rank, quick_window, seed).row;
        const auto step = fit_step_row(kept, window, ranks, plan, work, seed).row;
        const double reached = step_balancedness(held, step, ranks);
        scores[i] = {reached - rows[layer].step, reached - step_balancedness(held, window, ranks)};
    });
    double gap = 0, excess = 0, squares = 0, count = 0;
    for (const auto& score : scores) {
        if (!score) continue;
        gap += score->gap;
        excess += score->excess;
        squares += score->excess * score->excess;
        ++count;
    }
    if (count == 0) return std::nullopt;
    CrossValidation result;
    result.expected_step = sum / static_cast<double>(fitted.size()) + gap / count;
    result.excess = excess / count;
    const double variance = std::max(0.0, squares / count - result.excess * result.excess);
    result.error = count > 1 ? std::sqrt(variance / (count - 1)) : 0;
    return result;
}

}  // namespace eplb
