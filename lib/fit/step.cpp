#include "fit/step.hpp"

#include <algorithm>
#include <cmath>

#include "core/layout.hpp"
#include "core/random.hpp"
#include "fit/anneal.hpp"
#include "fit/layers.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/replicate.hpp"
#include "fit/reproducible.hpp"
#include "fit/slot_shares.hpp"
#include "fit/window.hpp"
#include "score/balance.hpp"

namespace eplb {
namespace {

// Step balancedness of a row under the even split, by the judge.
double step_of(const LayerCounts& counts, std::span<const ExpertId> row, int ranks) {
    const auto replicas = replica_counts(row, counts.experts);
    std::vector<double> shares;
    shares.reserve(row.size());
    for (const ExpertId expert : row) shares.push_back(1.0 / replicas[static_cast<std::size_t>(expert.value)]);
    const auto scored = balance(counts, row, shares, ranks);
    return scored ? scored->step : 1.0;
}

}  // namespace

std::vector<double> replica_weights(const LayerCounts& counts, int quarters) {
    const auto totals = counts.expert_totals();
    std::vector<double> weights = peak_weights(counts);
    double total = 0;
    for (const std::int64_t count : totals) total += static_cast<double>(count);
    for (std::size_t expert = 0; expert < weights.size(); ++expert) {
        if (totals[expert] == 0) continue;
        const double mean = static_cast<double>(totals[expert]) / total;
        weights[expert] = mean * quarter_power(weights[expert] / mean, quarters);
    }
    return weights;
}

Work step_work(Effort effort, int slots) {
    // 7e6 half nanoseconds: 40 to 100 thousand single proposals at 100 and at 16 record slots. Above 104 slots the
    // work grows with them.
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

std::vector<ExpertId> fit_step_row(const LayerCounts& counts, int ranks, int slots_per_rank,
                                   const StepSettings& settings, std::uint64_t seed) {
    const auto replicas = replicate(replica_weights(counts, settings.replica_quarters), ranks, ranks * slots_per_rank);
    const auto start = place(even_replica_loads(counts.expert_totals(), replicas), replicas, ranks, slots_per_rank);
    AnnealOptions options;
    options.work = settings.work;
    options.sharpness = static_cast<float>(3 * std::sqrt(static_cast<double>(ranks)));
    options.replica_share = settings.replica_share;
    options.seed = seed;
    return anneal(slot_shares(counts, ranks), start, ranks, options);
}

FitResult fit_step(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    const int ranks = geometry.ranks, slots_per_rank = geometry.slots_per_rank;
    const int slots = problem.layers.empty() ? 0 : problem.layers.front().slots;
    StepSettings settings;
    settings.work = step_work(problem.effort, slots);
    settings.replica_share = slots >= 80 || geometry.physical_slots() <= 32 ? 0.02 : 0;
    FitResult result;
    result.layout = fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
        auto best = fit_step_row(counts, ranks, slots_per_rank, settings,
                                 stream_seed(problem.seed, static_cast<std::uint64_t>(layer)));
        const auto window = fit_window_layer(problem, layer, totals).row;
        if (step_of(counts, window, ranks) < step_of(counts, best, ranks)) best = window;
        std::ranges::copy(best, row.begin());
    });
    return result;
}

}  // namespace eplb
