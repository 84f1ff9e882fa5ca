#include "fit/layers.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/parallel_loop.hpp"

namespace eplb {

void for_each_layer(const FitProblem& problem, const std::function<void(int layer)>& fit_layer,
                    const std::function<double(int layer)>& figure) {
    const int layers = problem.geometry.layers;
    std::atomic<bool> stop = false;
    std::mutex reporting;
    int done = 0, with_figure = 0;
    double sum = 0;
    for_each_index(layers, problem.threads, [&](int layer) {
        if (stop) return;
        fit_layer(layer);
        const std::scoped_lock lock(reporting);
        ++done;
        if (const double reached = figure ? figure(layer) : 0; reached > 0) {
            ++with_figure;
            sum += reached;
        }
        if (problem.progress.report) problem.progress.report(done, layers, with_figure > 0 ? sum / with_figure : 0);
        if (problem.progress.stop()) stop = true;
    });
    if (stop) throw Interrupted{};
}

Layout fit_rows(
    const FitProblem& problem,
    const std::function<void(int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row)>& fit_row,
    const std::function<double(int layer)>& figure) {
    Layout layout(problem.geometry);
    const auto fit_layer = [&](int layer) {
        const auto totals = problem.layers[static_cast<std::size_t>(layer)].expert_totals();
        const bool empty = std::all_of(totals.begin(), totals.end(), [](std::int64_t total) { return total == 0; });
        if (empty) {
            fill_trivial_row(layout.row(layer), problem.geometry.experts);
        } else {
            fit_row(layer, totals, layout.row(layer));
        }
    };
    for_each_layer(problem, fit_layer, figure);
    return layout;
}

}  // namespace eplb
