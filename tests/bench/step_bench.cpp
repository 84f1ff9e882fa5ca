// Quality and time of the fits on record slots that were held out; step.py makes the tables of docs/benchmarks.md from
// it.
//   step_bench RANKS SLOTS_PER_RANK FITS SPLITS LAYERS FILE...   one JSON object a line, a line a fit and split
//   step_bench                                                   the same on a small made-up sample, to see that it
//   works
// FITS: step-fast, step-default, step-thorough, window, window-alone (its rows without a step fit), greedy-swap,
// deepseek, trivial, random, joined by commas; with another seed than 1 as in step-fast@2. SPLITS: interleave, halves,
// random:SEED (half of the record slots), leave-one-out, first:N:M (fit on the first N, score the last M), joined by
// commas. LAYERS: the first that many; 0 is all. With `maps` after LAYERS, the lines carry the layout.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench_input.hpp"
#include "core/counts.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "core/record_split.hpp"
#include "fit/layers.hpp"
#include "fit/problem.hpp"
#include "fit/step.hpp"
#include "fit/window.hpp"
#include "layout_io/layout_file.hpp"
#include "score/balance.hpp"
#include "score/step_bound.hpp"

using namespace eplb;

namespace {

// One or, for leave-one-out, several ways of dividing the filled record slots.
std::vector<RecordSplit> splits_of(const std::string& name, const std::vector<int>& filled) {
    const auto parts = bench::parts_of(name, ':');
    if (parts[0] == "random") {
        std::vector<int> order = filled;
        Random random(std::stoull(parts.at(1)));
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
        }
        const auto half = order.begin() + static_cast<std::ptrdiff_t>((order.size() + 1) / 2);
        RecordSplit split{{order.begin(), half}, {half, order.end()}};
        std::sort(split.fit.begin(), split.fit.end());
        std::sort(split.holdout.begin(), split.holdout.end());
        return {split};
    }
    if (parts[0] == "first") {
        const auto fitted = std::stol(parts.at(1)), held = std::stol(parts.at(2));
        return {{{filled.begin(), filled.begin() + fitted}, {filled.end() - held, filled.end()}}};
    }
    if (parts[0] == "leave-one-out") {
        std::vector<RecordSplit> splits;
        for (const int held : filled) {
            RecordSplit split{filled, {held}};
            std::erase(split.fit, held);
            splits.push_back(split);
        }
        return splits;
    }
    return {split_record_slots(filled, parse_holdout(name))};
}

FitProblem problem_for(const Counts& counts, const std::vector<int>& slots, int layers, int ranks, int slots_per_rank) {
    FitProblem problem;
    problem.geometry = {layers, counts.experts(), ranks, slots_per_rank};
    for (int layer = 0; layer < layers; ++layer) problem.layers.push_back(gather(counts, layer, slots));
    return problem;
}

// "step-fast" is policy search with objective step and effort fast; "window" search with objective window.
const FitPolicy& set_up(const std::string& name_and_seed, FitProblem& problem) {
    const auto parts = bench::parts_of(name_and_seed, '@');
    const std::string& name = parts[0];
    problem.seed = parts.size() > 1 ? std::stoull(parts[1]) : 1;
    problem.effort = name == "step-fast" ? Effort::fast : name == "step-thorough" ? Effort::thorough : Effort::standard;
    const bool step = name.starts_with("step-");
    problem.objective = step ? Objective::step : Objective::window;
    return find_fit_policy(step || name == "window" ? "search" : name);
}

struct Means {
    double step = 0, window = 0;
    int layers = 0;
};

// Mean balancedness over the layers with counts, under the even split, by the judge.
Means score(const Counts& counts, const std::vector<int>& slots, const Layout& layout) {
    Means means;
    const Geometry& geometry = layout.geometry();
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const auto row = layout.row(layer);
        const auto replicas = replica_counts(row, geometry.experts);
        std::vector<double> shares;
        for (const ExpertId e : row) shares.push_back(1.0 / replicas[static_cast<std::size_t>(e.value)]);
        const auto scored = balance(gather(counts, layer, slots), row, shares, geometry.ranks);
        if (!scored) continue;
        means.step += scored->step;
        means.window += scored->window;
        ++means.layers;
    }
    means.step /= means.layers;
    means.window /= means.layers;
    return means;
}

double mean_bound(const FitProblem& problem) {
    double sum = 0, layers = 0;
    for (const LayerCounts& counts : problem.layers) {
        const auto totals = counts.expert_totals();
        if (std::ranges::all_of(totals, [](std::int64_t total) { return total == 0; })) continue;
        sum += step_lower_bound(counts, problem.geometry.ranks, problem.geometry.slots_per_rank);
        ++layers;
    }
    return sum / layers;
}

// The window fits alone, without the step fit that the objective window may start from.
Layout fit_window_alone(const FitProblem& problem) {
    return fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        std::ranges::copy(fit_window_layer(problem, layer, totals).row, row.begin());
    });
}

// A step fit whose guard is told that all is signal.
Layout fit_unguarded(const FitProblem& problem) {
    StepPlan plan = plan_step_fit(problem);
    plan.facts.window_fit = false;
    Layout layout = fit_window_alone(problem);
    for (int layer = 0; layer < problem.geometry.layers; ++layer) {
        const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
        const auto seed = stream_seed(problem.seed, static_cast<std::uint64_t>(layer));
        const auto fitted = fit_step_row(counts, layout.row(layer), problem.geometry.ranks, plan,
                                         step_work(problem.effort, counts.slots), seed);
        std::ranges::copy(fitted.row, layout.row(layer).begin());
    }
    return layout;
}

// Bounds take longer than fast fits: one for each split, whatever is fitted.
using Bounds = std::map<std::string, double>;

void report(const Counts& counts, const std::string& name, const std::string& split_name, int layers, int ranks,
            int slots_per_rank, bool with_map, Bounds& bounds) {
    const auto splits = splits_of(split_name, filled_slots(counts.slot_totals()));
    double fit_step = 0, step = 0, window = 0, milliseconds = 0, expected = 0;
    double& bound = bounds[split_name];
    const bool bounded = bound != 0;
    std::string facts, map;
    int scored_layers = 0;
    for (const RecordSplit& split : splits) {
        FitProblem problem = problem_for(counts, split.fit, layers, ranks, slots_per_rank);
        const FitPolicy& policy = set_up(name == "step-unguarded" ? "step-default"
                                         : name == "window-alone" ? "window"
                                                                  : name,
                                         problem);
        const double start = bench::cpu_milliseconds();
        FitResult result;
        if (name == "step-unguarded") {
            result.layout = fit_unguarded(problem);
        } else if (name == "window-alone") {
            result.layout = fit_window_alone(problem);
        } else {
            result = fit(policy, problem);
        }
        milliseconds += bench::cpu_milliseconds() - start;
        const Means fitted = score(counts, split.fit, result.layout),
                    held = score(counts, split.holdout, result.layout);
        fit_step += fitted.step;
        step += held.step;
        window += held.window;
        if (!bounded) bound += mean_bound(problem) / static_cast<double>(splits.size());
        scored_layers = held.layers;
        if (result.guard) {
            expected += result.guard->expected_holdout.value_or(0);
            facts = fmt::format(R"(, "r2": {:.4f}, "quarters": {}, "window_fit": {})",
                                result.guard->predictability.value_or(-1), result.guard->replica_quarters,
                                result.guard->window_fit);
        }
        if (with_map) {
            map = encode_layout(result.layout);
            std::replace(map.begin(), map.end(), '\n', ' ');
            map = R"(, "layout": )" + map;
        }
    }
    const auto n = static_cast<double>(splits.size());
    fmt::print(
        R"({{"fit": "{}", "split": "{}", "record_slots": {}, "layers": {}, "fit_step": {:.6f}, "bound": {:.6f}, "step": {:.6f}, "window": {:.6f}, "expected": {:.6f}, "cpu_ms": {:.3f}{}{}}})",
        name, split_name, splits.front().fit.size(), scored_layers, fit_step / n, bound, step / n, window / n,
        expected / n, milliseconds / n / layers, facts, map);
    fmt::print("\n");
    std::fflush(stdout);
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.empty()) {
        const SampleSpec spec = bench::small_spec();
        const Counts counts = bench::made_up_counts(spec);
        Bounds bounds;
        for (const char* fit : {"step-fast@2", "window", "window-alone", "deepseek"}) {
            for (const char* split : {"interleave", "random:1", "first:3:4", "leave-one-out"}) {
                report(counts, fit, split, spec.layers, spec.ranks, spec.slots_per_rank, false, bounds);
            }
        }
        return 0;
    }
    if (arguments.size() < 6) {
        fmt::print(stderr, "usage: step_bench [RANKS SLOTS_PER_RANK FITS SPLITS LAYERS [maps] FILE...]\n");
        return 2;
    }
    const int ranks = std::stoi(arguments[0]), slots_per_rank = std::stoi(arguments[1]);
    const bool with_map = arguments[5] == "maps";
    const Counts counts = bench::read_counts({arguments.begin() + (with_map ? 6 : 5), arguments.end()});
    const int first = std::stoi(arguments[4]), layers = first == 0 ? counts.layers() : std::min(first, counts.layers());
    require_feasible({layers, counts.experts(), ranks, slots_per_rank});
    Bounds bounds;
    for (const std::string& split : bench::parts_of(arguments[3], ',')) {
        for (const std::string& fit : bench::parts_of(arguments[2], ',')) {
            report(counts, fit, split, layers, ranks, slots_per_rank, with_map, bounds);
        }
    }
    return 0;
}

}  // namespace

int main(int count, char** arguments) try {
    return run({arguments + 1, arguments + count});
} catch (const Error& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return static_cast<int>(error.code());
}
