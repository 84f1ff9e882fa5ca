#include "fit/window_objective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/random.hpp"
#include "fit/layers.hpp"
#include "fit/step.hpp"
#include "fit/window.hpp"

namespace eplb {
namespace {

// Another stream than the window fit of the layer: the two share no random numbers.
constexpr std::uint64_t seed_offset = 1u << 21;

}  // namespace

FitResult fit_window(const FitProblem& problem) {
    const int ranks = problem.geometry.ranks;
    const StepPlan plan = plan_step_fit(problem);
    const Work work = step_work(Effort::fast, problem.layers.empty() ? 0 : problem.layers.front().slots);
    std::vector<char> from_step(problem.layers.size());
    FitResult result;
    result.layout = fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        const WindowRow window = fit_window_layer(problem, layer, totals);
        std::ranges::copy(window.row, row.begin());
        if (plan.facts.record_slots < 2 || plan.facts.window_fit) return;
        const auto index = static_cast<std::size_t>(layer);
        auto step = fit_step_row(problem.layers[index], window.row, ranks, plan, work,
                                 stream_seed(problem.seed, seed_offset + index));
        if (step.window) return;
        double total = 0;
        for (const std::int64_t count : totals) total += static_cast<double>(count);
        const double reached = window.gap() > window_slack ? window.balancedness : window.bound;
        const double largest = reached * (1 + window_slack) * total / ranks;
        if (even_out_window(step.row, totals, ranks, largest) > largest) return;
        const LayerCounts& counts = problem.layers[index];
        if (step_balancedness(counts, step.row, ranks) >= step_balancedness(counts, window.row, ranks)) return;
        std::ranges::copy(step.row, row.begin());
        from_step[index] = 1;
    });
    const auto count = std::count(from_step.begin(), from_step.end(), 1);
    if (count > 0) {
        result.notes.push_back(
            fmt::format("window: {} of {} layers by a step fit whose totals are evened out to 1e-3, since "
                        "the record slots predict each other",
                        count, problem.geometry.layers));
    }
    return result;
}

}  // namespace eplb
