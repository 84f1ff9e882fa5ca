#include "fit/dispatch_fit.hpp"

#include <algorithm>
#include <utility>

#include "fit/balanced_table.hpp"
#include "fit/dispatch_search.hpp"
#include "fit/layer_shares.hpp"
#include "fit/layers.hpp"
#include "fit/policies.hpp"
#include "fit/share_bound.hpp"

namespace eplb {
namespace {

constexpr int search_folds = 4;  // of the record slots, to judge on one what the others gave

// How many times the proposals of a layout alone free shares get. Whole source ranks are coarse where ranks are few,
// and what that costs averages out over many record slots: docs/benchmarks.md, "Balanced table".
std::int64_t patience_of(const FitProblem& problem) {
    const int slots = problem.layers.empty() ? 0 : problem.layers.front().slots;
    if (problem.objective == Objective::window) return 1;
    return std::clamp(2048 / std::max(1, problem.geometry.ranks * slots), 1, 8);
}

// A rank whose own replica serves nobody gets it for its own tokens where that makes nothing worse.
void prefer_own(const FitProblem& problem, int layer, SharedRow& shared) {
    double reached = objective_of(problem, layer, shared);
    for (std::size_t slot = 0; slot < shared.row.size(); ++slot) {
        for (std::size_t other = 0; other < shared.row.size() && shared.share[slot] == 0; ++other) {
            if (shared.row[other] != shared.row[slot] || shared.share[other] < 2) continue;
            shared.share[other] -= 1;
            shared.share[slot] = 1;
            const double changed = objective_of(problem, layer, shared);
            if (changed <= reached) {
                reached = changed;
            } else {
                shared.share[other] += 1;
                shared.share[slot] = 0;
            }
        }
    }
}

SharedRow dealt_in_turn(const FitProblem& problem, int layer, const ShareRule& rule, std::span<const ExpertId> row) {
    return DispatchSearch(energy_of(problem, layer), problem.geometry.slots_per_rank, rule,
                          {{row.begin(), row.end()}, {}})
        .best();
}

// Places and shares searched together from the row of the even fit; never worse on the record slots than that row dealt
// in turn.
SharedRow searched(const FitProblem& problem, int layer, const ShareRule& rule, std::span<const ExpertId> start) {
    const Geometry& geometry = problem.geometry;
    SharedRow best = dealt_in_turn(problem, layer, rule, start);
    double reached = objective_of(problem, layer, best);
    const auto keep_better = [&](const SharedRow& found) {
        const double value = objective_of(problem, layer, found);
        if (value >= reached) return;
        reached = value;
        best = found;
    };
    const auto attempt = [&](const Cooling& cooling, std::uint64_t run) {
        DispatchSearch search(energy_of(problem, layer), geometry.slots_per_rank, rule,
                              {{start.begin(), start.end()}, {}});
        const std::int64_t proposals = proposals_of(problem.effort) * patience_of(problem);
        search.run(proposals, cooling, Random(stream_seed(problem.seed, 2 * static_cast<std::uint64_t>(layer) + run)));
        keep_better(search.best());
    };
    attempt(from_even_fit, 0);
    // Far from the even fit there may be better, where it can be found: not among many record slots and places.
    if (problem.objective == Objective::window || geometry.physical_slots() <= 64) attempt(from_scratch, 1);
    keep_better(dealt_in_turn(problem, layer, rule, best.row));
    return best;
}

// The counts of some layers with every fourth filled record slot, from `fold` on, left out, or of those alone.
FitProblem fold_of(const FitProblem& problem, std::span<const int> layers, int fold, bool left_out) {
    FitProblem part = problem;
    part.progress.report = nullptr;
    part.geometry.layers = static_cast<int>(layers.size());
    part.layers.clear();
    for (const int layer : layers) {
        const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
        LayerCounts& kept = part.layers.emplace_back(LayerCounts{0, counts.experts, {}});
        for (int slot = 0; slot < counts.slots; ++slot) {
            if ((slot % search_folds == fold) != left_out) continue;
            const auto row = counts.row(slot);
            kept.values.insert(kept.values.end(), row.begin(), row.end());
            ++kept.slots;
        }
    }
    return part;
}

// Whether the search pays on record slots that it does not see: with many ranks, dealing the even fit in turn is close
// to the even split, and a search only fits the shares to the slots seen. A sample of the layers is fitted again
// without every fourth record slot and scored on those, both ways.
bool search_pays(const FitProblem& problem, const ShareRule& rule) {
    constexpr std::size_t most_sampled = 8;
    std::vector<int> filled;
    for (int layer = 0; layer < problem.geometry.layers; ++layer) {
        if (has_counts(problem.layers[static_cast<std::size_t>(layer)])) filled.push_back(layer);
    }
    if (problem.objective == Objective::window || filled.empty() || problem.layers.front().slots < search_folds)
        return true;
    const std::size_t sampled = std::min(filled.size(), most_sampled);
    double gain = 0;
    for (int fold = 0; fold < search_folds; ++fold) {
        std::vector<int> layers;
        for (auto i = static_cast<std::size_t>(fold); i < sampled; i += search_folds) {
            layers.push_back(filled[i * filled.size() / sampled]);
        }
        if (layers.empty()) continue;
        const FitProblem seen = fold_of(problem, layers, fold, false), held = fold_of(problem, layers, fold, true);
        const Layout even = policy::search(seen).layout;
        std::vector<double> gains(layers.size());
        for_each_layer(seen, [&](int layer) {
            const auto row = even.row(layer);
            if (!has_counts(seen.layers[static_cast<std::size_t>(layer)])) return;
            gains[static_cast<std::size_t>(layer)] = objective_of(held, layer, dealt_in_turn(seen, layer, rule, row)) -
                                                     objective_of(held, layer, searched(seen, layer, rule, row));
        });
        for (const double one : gains) gain += one;
    }
    return gain > 0;
}

}  // namespace

BalancedFit fit_balanced(const FitProblem& problem, const DispatchContext& context) {
    const Geometry& geometry = problem.geometry;
    const ShareRule rule{nullptr, dispatch_sources(geometry, context), {}};
    // The fit for the even split is the start. It is kept where whole ranks as shares cost nothing else can win back.
    const FitResult even = policy::search(part_of(problem, 0, 2));
    BalancedFit result{even, DispatchTable(geometry.ranks, geometry.layers, geometry.experts),
                       std::vector<std::optional<double>>(problem.layers.size())};
    if (result.fit.guard) {  // what it expects is about the even split
        result.fit.guard->expected_holdout.reset();
        result.fit.guard->expected_gain.reset();
    }
    const bool search = search_pays(problem, rule);
    if (!search) {
        result.fit.notes.push_back(
            "balanced table: the fit for the even split, dealt in turn; on record slots left out, a search for places "
            "and shares was no better");
    }
    for_each_layer(part_of(problem, 1, 2), [&](int layer) {
        const auto row = result.fit.layout.row(layer);
        const auto index = static_cast<std::size_t>(layer);
        const bool counted = has_counts(problem.layers[index]);
        SharedRow best =
            search && counted ? searched(problem, layer, rule, row) : dealt_in_turn(problem, layer, rule, row);
        if (counted) {
            prefer_own(problem, layer, best);
            const LayerCounts& counts = problem.layers[index];
            result.share_optimum[index] = problem.objective == Objective::window
                                              ? window_share_optimum(counts.expert_totals(), best.row, geometry.ranks)
                                              : step_share_optimum(counts, best.row, geometry.ranks);
        }
        std::ranges::copy(best.row, row.begin());
        fill_balanced_layer(result.table, layer, best.row, best.share, rule.sources);
    });
    return result;
}

}  // namespace eplb
