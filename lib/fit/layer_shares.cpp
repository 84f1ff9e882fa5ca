#include "fit/layer_shares.hpp"

#include <algorithm>

#include "dispatch/replica_lists.hpp"
#include "fit/slot_shares.hpp"
#include "score/balance.hpp"

namespace eplb {

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

bool has_counts(const LayerCounts& counts) {
    return std::any_of(counts.values.begin(), counts.values.end(), [](std::int64_t count) { return count != 0; });
}

ShareEnergy energy_of(const FitProblem& problem, int layer) {
    const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
    const int ranks = problem.geometry.ranks, doublings = ranks <= 24 ? 4 : 5;
    if (problem.objective == Objective::step) return {slot_shares(counts, ranks), ranks, doublings};
    return {slot_shares({1, counts.experts, counts.expert_totals()}, ranks), ranks, doublings};
}

double objective_of(const FitProblem& problem, int layer, const SharedRow& shared) {
    std::vector<double> shares = shared.share;
    for (double& share : shares) share /= problem.geometry.ranks;
    const auto result =
        balance(problem.layers[static_cast<std::size_t>(layer)], shared.row, shares, problem.geometry.ranks);
    const LayerBalance reached = result.value_or(LayerBalance{});
    return problem.objective == Objective::window ? reached.window : reached.step;
}

std::vector<std::vector<int>> dealt_sources(dispatch::StaticDealer& dealer, const DispatchModel& model,
                                            std::span<const DispatchSource> sources, std::span<const ExpertId> row,
                                            int experts) {
    const dispatch::ReplicaLists lists(row, experts);
    std::vector<std::vector<int>> dealt(static_cast<std::size_t>(experts));
    std::vector<int> settled;
    for (int expert = 0; expert < experts; ++expert) {
        const auto replicas = lists.of(expert);
        std::vector<int>& counts = dealt[static_cast<std::size_t>(expert)];
        counts.resize(replicas.size());
        for (const int replica : dealer(replicas)) ++counts[static_cast<std::size_t>(replica)];
        settled.resize(replicas.size());
        settled_sources(model, sources, replicas, expert, settled);
        for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= settled[i];
    }
    return dealt;
}

FitProblem part_of(const FitProblem& problem, int index, int parts) {
    FitProblem part = problem;
    if (problem.progress.report) {
        part.progress.report = [report = problem.progress.report, index, parts](int done, int total, double best) {
            report(done + index * total, parts * total, best);
        };
    }
    return part;
}

}  // namespace eplb
