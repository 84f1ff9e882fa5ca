#include "fit/layers.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "score/layer_loop.hpp"

namespace eplb {

void for_each_layer(const FitProblem& problem, const std::function<void(int layer)>& fit_layer) {
    const int layers = problem.geometry.layers;
    std::atomic<bool> stop = false;
    std::mutex reporting;
    int done = 0;
    for_each_layer(layers, problem.threads, [&](int layer) {
        if (stop) return;
        fit_layer(layer);
        const std::scoped_lock lock(reporting);
        ++done;
        if (problem.progress.report) problem.progress.report(done, layers, 0);
        if (problem.progress.stop()) stop = true;
    });
    if (stop) throw Interrupted{};
}

Layout fit_rows(
    const FitProblem& problem,
    const std::function<void(int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row)>& fit_row) {
    Layout layout(problem.geometry);
    for_each_layer(problem, [&](int layer) {
        const auto totals = problem.layers[static_cast<std::size_t>(layer)].expert_totals();
        const bool empty = std::all_of(totals.begin(), totals.end(), [](std::int64_t total) { return total == 0; });
        if (empty) {
            fill_trivial_row(layout.row(layer), problem.geometry.experts);
        } else {
            fit_row(layer, totals, layout.row(layer));
        }
    });
    return layout;
}

}  // namespace eplb
