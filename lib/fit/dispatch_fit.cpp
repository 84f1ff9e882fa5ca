#include "fit/dispatch_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "fit/balanced_table.hpp"
#include "fit/dispatch_search.hpp"
#include "fit/layers.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/policies.hpp"
#include "fit/replicate.hpp"
#include "fit/share_bound.hpp"
#include "score/balance.hpp"

namespace eplb {
namespace {

constexpr int search_folds = 4;  // of the record slots, to judge on one what the others gave

constexpr Cooling from_scratch{0.15, 0.0015};   // wherever the start is
constexpr Cooling from_even_fit{0.03, 0.0015};  // a start that is good already is not to be forgotten

std::int64_t proposals_of(Effort effort) {
    switch (effort) {
        case Effort::fast:
            return 20'000;
        case Effort::standard:
            return 100'000;
        case Effort::thorough:
            return 500'000;
    }
    return 100'000;
}

// How many times the proposals of a layout alone free shares get. Whole source ranks are coarse where ranks are few,
// and what that costs averages out over many record slots: docs/benchmarks.md, "Balanced table".
std::int64_t patience_of(const FitProblem& problem) {
    const int slots = problem.layers.empty() ? 0 : problem.layers.front().slots;
    if (problem.objective == Objective::window) return 1;
    return std::clamp(2048 / std::max(1, problem.geometry.ranks * slots), 1, 8);
}

// The window objective is the step objective of one record slot that holds the totals.
ShareEnergy energy_of(const FitProblem& problem, int layer) {
    const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
    const int ranks = problem.geometry.ranks, doublings = ranks <= 24 ? 4 : 5;
    if (problem.objective == Objective::step) return {slot_shares(counts, ranks), ranks, doublings};
    return {slot_shares({1, counts.experts, counts.expert_totals()}, ranks), ranks, doublings};
}

// Replicas for the peaks, longest first: good under the even split, a beginning under any other.
std::vector<ExpertId> first_row(const FitProblem& problem, int layer) {
    const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
    const Geometry& geometry = problem.geometry;
    const auto replicas = replicate(peak_weights(counts), geometry.ranks, geometry.physical_slots());
    return place(even_replica_loads(counts.expert_totals(), replicas), replicas, geometry.ranks,
                 geometry.slots_per_rank);
}

bool has_counts(const LayerCounts& counts) {
    return std::any_of(counts.values.begin(), counts.values.end(), [](std::int64_t count) { return count != 0; });
}

// Two searches report as one.
FitProblem half_of(const FitProblem& problem, int half) {
    FitProblem part = problem;
    if (problem.progress.report) {
        part.progress.report = [report = problem.progress.report, half](int done, int total, double best) {
            report(done + half * total, 2 * total, best);
        };
    }
    return part;
}

// Of the sources that a seeded fill serves: how many ended at each replica, [E][replicas].
std::vector<std::vector<int>> dealt_sources(const DispatchModel& model, std::span<const DispatchSource> sources,
                                            const DispatchTable& table, const Layout& layout, int layer) {
    const auto row = layout.row(layer);
    std::vector<std::vector<SlotId>> replicas(static_cast<std::size_t>(layout.geometry().experts));
    for (std::size_t slot = 0; slot < row.size(); ++slot) {
        replicas[static_cast<std::size_t>(row[slot].value)].push_back(SlotId{static_cast<int>(slot)});
    }
    std::vector<std::vector<int>> dealt(replicas.size());
    for (std::size_t expert = 0; expert < replicas.size(); ++expert) {
        const auto& slots = replicas[expert];
        dealt[expert].resize(slots.size());
        for (const DispatchSource& source : sources) {
            if (model.targets(source, slots, static_cast<int>(expert)).size() == 1) continue;
            const SlotId slot = table.row(source.rank, layer)[expert];
            ++dealt[expert][static_cast<std::size_t>(std::find(slots.begin(), slots.end(), slot) - slots.begin())];
        }
    }
    return dealt;
}

std::vector<double> fractions(const SharedRow& shared, int ranks) {
    std::vector<double> shares = shared.share;
    for (double& share : shares) share /= ranks;
    return shares;
}

// 1 for a layer without counts.
double objective_of(const FitProblem& problem, int layer, const SharedRow& shared) {
    const int ranks = problem.geometry.ranks;
    const auto result =
        balance(problem.layers[static_cast<std::size_t>(layer)], shared.row, fractions(shared, ranks), ranks);
    const LayerBalance reached = result.value_or(LayerBalance{});
    return problem.objective == Objective::window ? reached.window : reached.step;
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

FitResult fit_for_rule(const FitProblem& problem, const DispatchModel& model, const DispatchContext& context) {
    if (model.targets == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch",
                    fmt::format("a fit for {} is not possible: its choice follows from no rule", model.name));
    }
    require_context(model, context);
    if (is_even(model)) return policy::search(problem);
    const Geometry& geometry = problem.geometry;
    DispatchContext used = context;
    if (!model.needs_nodes) used.nodes.reset();
    const ShareRule rule{&model, dispatch_sources(geometry, used), {}};
    FitResult result{Layout(geometry), {}};
    const auto search = [&](const FitProblem& part, std::uint64_t run, auto start, auto rule_of) {
        for_each_layer(part, [&](int layer) {
            const auto row = result.layout.row(layer);
            const auto index = static_cast<std::size_t>(layer);
            if (!has_counts(problem.layers[index])) {
                fill_trivial_row(row, geometry.experts);
                return;
            }
            const ShareRule layer_rule = rule_of(layer);
            DispatchSearch one(energy_of(problem, layer), geometry.slots_per_rank, layer_rule, {start(layer), {}});
            one.run(proposals_of(problem.effort), from_scratch, Random(stream_seed(problem.seed, 2 * index + run)));
            std::ranges::copy(one.best().row, row.begin());
        });
    };
    const bool seeded = model.table != nullptr && model.seeded;
    search(
        seeded ? half_of(problem, 0) : problem, 0, [&](int layer) { return first_row(problem, layer); },
        [&](int) { return rule; });
    if (seeded) {
        // The streams depend on the counts and nodes of the replicas of all layers before. With those settled, the
        // table is known, and what is still free is fitted to it.
        const DispatchTable table = model.table(result.layout, used);
        const Layout first = result.layout;
        search(
            half_of(problem, 1), 1,
            [&](int layer) { return std::vector<ExpertId>(first.row(layer).begin(), first.row(layer).end()); },
            [&](int layer) {
                return ShareRule{&model, rule.sources, dealt_sources(model, rule.sources, table, first, layer)};
            });
    }
    return result;
}

BalancedFit fit_balanced(const FitProblem& problem, const DispatchContext& context) {
    const Geometry& geometry = problem.geometry;
    const ShareRule rule{nullptr, dispatch_sources(geometry, context), {}};
    // The fit for the even split is the start. It is kept where whole ranks as shares cost nothing else can win back.
    const FitResult even = policy::search(half_of(problem, 0));
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
    for_each_layer(half_of(problem, 1), [&](int layer) {
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
