#include "fitting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/progress_bar.hpp"
#include "core/parallel_loop.hpp"
#include "fit/dispatch_fit.hpp"
#include "score/balance.hpp"

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

namespace {

// The certificate of what whole source ranks as shares cost.
std::string share_optimum_note(const BalancedFit& balanced, const FitProblem& problem) {
    const bool step = problem.objective == Objective::step;
    double reached = 0, optimum = 0, worst = 0;
    int layers = 0;
    DispatchContext context;
    context.table = &balanced.table;
    const ReplicaShares shares = replica_shares(find_dispatch_model("table"), balanced.fit.layout, context);
    for (std::size_t layer = 0; layer < problem.layers.size(); ++layer) {
        const int index = static_cast<int>(layer);
        const auto value =
            balance(problem.layers[layer], balanced.fit.layout.row(index), shares.row(index), problem.geometry.ranks);
        if (!value) continue;
        ++layers;
        const double figure = step ? value->step : value->window;
        reached += figure;
        optimum += *balanced.share_optimum[layer];
        worst = std::max(worst, figure - *balanced.share_optimum[layer]);
    }
    if (step) {
        return fmt::format(
            "balanced table, step, fitted record slots: {:.5f} on average; no table for the same replicas is below "
            "{:.5f} (a max-flow for every record slot)",
            reached / layers, optimum / layers);
    }
    return fmt::format(
        "balanced table, window, fitted record slots: {:.5f} on average; real-valued shares of the same replicas "
        "(max-flow) could reach {:.5f}; whole source ranks cost at most {:.5f} in a layer",
        reached / layers, optimum / layers, worst);
}

FitProblem problem_of(const FitOptions& options, const Counts& counts, std::span<const int> record_slots,
                      const Geometry& geometry, const std::string& what) {
    FitProblem problem;
    problem.geometry = geometry;
    problem.objective = options.objective;
    problem.effort = options.effort;
    problem.seed = options.seed;
    problem.threads = options.common.thread_count();
    problem.layers.resize(static_cast<std::size_t>(counts.layers()));
    for_each_index(counts.layers(), problem.threads, [&](int layer) {
        problem.layers[static_cast<std::size_t>(layer)] = gather(counts, layer, record_slots);
    });
    problem.progress = cli::progress_bar(what);
    return problem;
}

}  // namespace

FitResult fit_on(const FitOptions& options, const FitPolicy& policy, const Counts& counts,
                 std::span<const int> record_slots, const Geometry& geometry, const std::string& what) {
    return fit(policy, problem_of(options, counts, record_slots, geometry, what));
}

DispatchedFit fit_as_asked(const FitOptions& options, const Counts& counts, std::span<const int> record_slots,
                           const Geometry& geometry, const std::string& what) {
    if (dispatch_name(options) == "even") {
        return {fit_on(options, *options.policy, counts, record_slots, geometry, what), std::nullopt};
    }
    const FitProblem problem = problem_of(options, counts, record_slots, geometry, what);
    if (!makes_table(options)) {
        const Dispatch rule = rule_dispatch(dispatch_name(options), options.dispatch);
        return {fit_for_rule(problem, *rule.model, rule.context), std::nullopt};
    }
    DispatchContext context;
    context.nodes = options.dispatch.nodes;
    BalancedFit balanced = fit_balanced(problem, context);
    balanced.fit.notes.push_back(share_optimum_note(balanced, problem));
    return {std::move(balanced.fit), std::move(balanced.table)};
}

const DispatchedFit& Fits::of(const Geometry& geometry, const std::string& what) {
    const auto known = by_slots_per_rank_.find(geometry.slots_per_rank);
    if (known != by_slots_per_rank_.end()) return known->second;
    DispatchedFit fitted = fit_as_asked(options_, counts_, record_slots_, geometry, what);
    return by_slots_per_rank_.emplace(geometry.slots_per_rank, std::move(fitted)).first->second;
}

std::vector<Dispatch> DispatchedFit::dispatches(const FitOptions& options, const std::string& subject) const {
    std::vector<Dispatch> dispatches;
    if (table) {
        dispatches.push_back(table_dispatch(dispatch_name(options), *table, subject));
    } else {
        dispatches.push_back(rule_dispatch(dispatch_name(options), options.dispatch));
    }
    if (dispatches.front().label != "even") dispatches.push_back(rule_dispatch("even", {}));
    return dispatches;
}

}  // namespace eplb
