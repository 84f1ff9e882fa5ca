#include "fit/step.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/layout.hpp"
#include "core/random.hpp"
#include "fit/anneal.hpp"
#include "fit/cross_validation.hpp"
#include "fit/layers.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/replica_exponent.hpp"
#include "fit/replicate.hpp"
#include "fit/shrink.hpp"
#include "fit/slot_shares.hpp"
#include "fit/slot_weights.hpp"
#include "fit/window.hpp"
#include "score/balance.hpp"

namespace eplb {
namespace {

// Sharpness of the smoothed maximum: docs/theory.md, "The energy".
double sharpness_for(int ranks) {
    return 3 * std::sqrt(static_cast<double>(ranks));
}

std::vector<ExpertId> annealed_row(const LayerCounts& recorded, int ranks, int slots_per_rank, const StepPlan& plan,
                                   Work work, std::uint64_t seed, double& lambda) {
    const auto [counts, inverse_total] = weigh_slots(recorded);
    const auto totals = counts.expert_totals();
    const auto weights = replica_weights(counts, plan.facts.replica_quarters);
    const auto replicas = replicate(weights, ranks, ranks * slots_per_rank);
    const auto start = place(even_replica_loads(totals, replicas), replicas, ranks, slots_per_rank);
    AnnealOptions options;
    options.work = work;
    options.sharpness = static_cast<float>(sharpness_for(ranks));
    options.replica_share = plan.facts.replica_share;
    options.seed = seed;
    SlotShares shares = slot_shares(counts, ranks);
    // Replica counts come from the slots as they are: shrinking their peaks too costs .02 to .2 of holdout step value
    // where an expert has rare high peaks.
    lambda = shrink_factor(shares, replicas, ranks, sharpness_for(ranks), plan.predictability(), inverse_total);
    if (lambda < 1) shrink(shares, lambda);
    if (plan.mean_slot_weight > 0) shares = with_mean_slot(shares, plan.mean_slot_weight);
    return anneal(shares, start, ranks, options);
}

}  // namespace

double step_balancedness(const LayerCounts& counts, std::span<const ExpertId> row, int ranks) {
    const auto replicas = replica_counts(row, counts.experts);
    std::vector<double> shares;
    shares.reserve(row.size());
    for (const ExpertId expert : row) shares.push_back(1.0 / replicas[static_cast<std::size_t>(expert.value)]);
    const auto scored = balance(counts, row, shares, ranks);
    return scored ? scored->step : 1.0;
}

std::vector<double> replica_weights(const LayerCounts& counts, int quarters) {
    const auto totals = counts.expert_totals();
    double total = 0;
    for (const std::int64_t count : totals) total += static_cast<double>(count);
    std::vector<double> mean;
    mean.reserve(totals.size());
    for (const std::int64_t count : totals) mean.push_back(total > 0 ? static_cast<double>(count) / total : 0);
    return blend_weights(mean, peak_weights(counts), quarters);
}

Work step_work(Effort effort, int slots) {
    // 7e6 half nanoseconds: the price of 37 thousand single proposals at 104 record slots and of 61 thousand at 16.
    // Above 104 slots the work grows with them.
    const Work standard = 7'000'000 / 13 * std::max(13, vectors_for(slots));
    switch (effort) {
        case Effort::fast:
            return standard / 4;
        case Effort::standard:
            break;
        case Effort::thorough:
            return standard * 5;
    }
    return standard;
}

StepRow fit_step_row(const LayerCounts& counts, std::span<const ExpertId> window, int ranks, const StepPlan& plan,
                     Work work, std::uint64_t seed) {
    StepRow result;
    result.row.assign(window.begin(), window.end());
    result.step = step_balancedness(counts, result.row, ranks);
    result.window = true;
    if (plan.facts.window_fit) return result;
    const int slots_per_rank = static_cast<int>(window.size()) / ranks;
    auto row = annealed_row(counts, ranks, slots_per_rank, plan, work, seed, result.shrink);
    const double step = step_balancedness(counts, row, ranks);
    if (!(step < result.step)) return result;
    result.row = std::move(row);
    result.step = step;
    result.window = false;
    return result;
}

FitResult fit_step(const FitProblem& recorded) {
    const StepPlan plan = plan_step_fit(recorded);
    const std::optional<FitProblem> merged = without_copies(recorded);
    const FitProblem& problem = merged ? *merged : recorded;
    const Geometry& geometry = problem.geometry;
    const Work work = step_work(problem.effort, problem.layers.empty() ? 0 : problem.layers.front().slots);
    std::vector<StepRow> rows(problem.layers.size());
    FitResult result;
    const auto fit_row = [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        StepRow& fitted = rows[static_cast<std::size_t>(layer)];
        fitted =
            fit_step_row(problem.layers[static_cast<std::size_t>(layer)], fit_window_layer(problem, layer, totals).row,
                         geometry.ranks, plan, work, stream_seed(problem.seed, static_cast<std::uint64_t>(layer)));
        std::ranges::copy(fitted.row, row.begin());
    };
    result.layout = fit_rows(problem, fit_row, [&](int layer) {
        const StepRow& fitted = rows[static_cast<std::size_t>(layer)];
        return fitted.row.empty() ? 0 : fitted.step;
    });
    GuardFacts facts = plan.facts;
    double shrinks = 0;
    for (const StepRow& row : rows) {
        if (row.row.empty()) continue;  // no counts
        ++(row.window ? facts.window_layers : facts.step_layers);
        shrinks += row.shrink;
    }
    if (facts.window_layers + facts.step_layers > 0) {
        facts.mean_shrink = shrinks / (facts.window_layers + facts.step_layers);
    }
    if (const auto validation = cross_validate(problem, plan, work / 4, rows)) {
        facts.expected_holdout = validation->expected_step;
        facts.expected_gain = -validation->excess;
        facts.expected_gain_error = validation->error;
    }
    result.notes = describe(facts);
    result.guard = facts;
    return result;
}

}  // namespace eplb
