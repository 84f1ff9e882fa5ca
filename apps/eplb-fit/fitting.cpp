#include "fitting.hpp"

#include "cli/progress_bar.hpp"
#include "score/layer_loop.hpp"

namespace eplb {

Geometry geometry_of(const FitOptions& options, int layers, int experts) {
    const SlotBudget& budget = options.budget;
    if (budget.redundant_total) {
        return geometry_with_redundancy(layers, experts, options.ranks, *budget.redundant_total);
    }
    const int slots = budget.slots_per_rank
                          ? *budget.slots_per_rank
                          : slots_for_redundant_per_rank(experts, options.ranks, *budget.redundant_per_rank);
    const Geometry geometry{layers, experts, options.ranks, slots};
    require_feasible(geometry);
    return geometry;
}

Geometry geometry_with_redundancy(int layers, int experts, int ranks, int redundant_total) {
    const Geometry geometry{layers, experts, ranks, slots_for_redundant_total(experts, ranks, redundant_total)};
    require_feasible(geometry);
    return geometry;
}

FitResult fit_on(const FitOptions& options, const FitPolicy& policy, const Counts& counts,
                 std::span<const int> record_slots, const Geometry& geometry, const std::string& what) {
    FitProblem problem;
    problem.geometry = geometry;
    problem.objective = options.objective;
    problem.effort = options.effort;
    problem.seed = options.seed;
    problem.threads = options.common.thread_count();
    problem.layers.resize(static_cast<std::size_t>(counts.layers()));
    for_each_layer(counts.layers(), problem.threads, [&](int layer) {
        problem.layers[static_cast<std::size_t>(layer)] = gather(counts, layer, record_slots);
    });
    problem.progress = cli::progress_bar(what);
    return fit(policy, problem);
}

}  // namespace eplb
