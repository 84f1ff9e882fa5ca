// Time and quality of the window fit.
//   window_bench FILE RANKS SLOTS_PER_RANK [REPEATS]   every layer of a count file: ms a model and worst certified gap
//   window_bench quality                               made-up counts in many shapes: how close each stage comes
//   window_bench holdout RANKS SLOTS_PER_RANK FILE...  window value on held-out record slots, by replica weights
//   window_bench                                       the first two on a small sample, to see that it works
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "core/error.hpp"
#include "core/record_split.hpp"
#include "counts_io/count_file.hpp"
#include "dispatch/model.hpp"
#include "fit/deepseek.hpp"
#include "fit/layers.hpp"
#include "fit/pair_replicas.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/replicate.hpp"
#include "fit/swap.hpp"
#include "fit/swap_pairs.hpp"
#include "fit/window.hpp"
#include "fit/window_anneal.hpp"
#include "sample/generator.hpp"
#include "score/bounds.hpp"
#include "score/layout_score.hpp"

using namespace eplb;

namespace {

using Totals = std::vector<std::vector<std::int64_t>>;  // [layers][E], layers without counts left out

double cpu_milliseconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

Totals totals_of(const Counts& counts) {
    const auto filled = filled_slots(counts.slot_totals());
    Totals totals;
    for (int layer = 0; layer < counts.layers(); ++layer) {
        auto sums = gather(counts, layer, filled).expert_totals();
        if (std::ranges::any_of(sums, [](std::int64_t sum) { return sum > 0; })) totals.push_back(std::move(sums));
    }
    return totals;
}

Totals made_up(SampleSpec spec) {
    const Sample sample = generate(spec, 1, {});
    std::vector<std::int64_t> values(sample.counts.begin(), sample.counts.end());
    return totals_of(Counts({make_count_tensor(std::move(values), spec.record_slots, spec.layers, spec.experts)}));
}

double mean_load(std::span<const std::int64_t> totals, int ranks) {
    return static_cast<double>(std::accumulate(totals.begin(), totals.end(), std::int64_t{0})) / ranks;
}

// What one way of fitting did to every layer of a model.
struct Arm {
    std::string name;
    std::function<double(std::span<const std::int64_t>)> gap;  // fits one layer; largest load / lower bound - 1
    std::vector<double> milliseconds;                          // one per repeat
    double worst = 0, sum = 0;
    int certified = 0;  // layers with a gap of 1e-3 or less
};

void run(Arm& arm, const Totals& totals) {
    arm.worst = arm.sum = 0;
    arm.certified = 0;
    const double start = cpu_milliseconds();
    for (const auto& layer : totals) {
        const double gap = arm.gap(layer);
        arm.worst = std::max(arm.worst, gap);
        arm.sum += gap;
        arm.certified += gap <= 1e-3 ? 1 : 0;
    }
    arm.milliseconds.push_back(cpu_milliseconds() - start);
}

void measure_speed(const Totals& totals, int ranks, int slots_per_rank, int repeats) {
    const auto window_arm = [&](std::string name, WindowGoal goal) {
        return Arm{std::move(name),
                   [=](std::span<const std::int64_t> layer) {
                       return fit_window_row(layer, {}, ranks, slots_per_rank, goal, 1).gap();
                   },
                   {}};
    };
    const double no_gap = 0;
    std::vector<Arm> arms{
        {"nothing (noise floor)", [&](std::span<const std::int64_t>) { return no_gap; }, {}},
        {"replicate and place",
         [&](std::span<const std::int64_t> layer) {
             const auto replicas = replicate(layer, ranks, ranks * slots_per_rank);
             const auto loads = even_replica_loads(layer, replicas);
             auto row = place(loads, replicas, ranks, slots_per_rank);
             return swap_down(row, loads, ranks, std::numeric_limits<double>::infinity()) / mean_load(layer, ranks) /
                        window_lower_bound(layer, ranks, slots_per_rank, PairBound::skip) -
                    1;
         },
         {}},
        window_arm("window fit, goal 1e-3", {1e-3, 0}),
        window_arm("window fit, goal 3e-4", {3e-4, 0}),
        window_arm("window fit, goal 1e-4", {1e-4, 0}),
    };
    for (int repeat = -1; repeat < repeats; ++repeat) {  // arms side by side, so that they share the machine's moods
        for (Arm& arm : arms) {
            run(arm, totals);
            if (repeat < 0) arm.milliseconds.clear();  // warm-up
        }
    }
    fmt::print("{} layers, {} experts, {} ranks x {} slots; one thread, CPU time, median of {}\n\n", totals.size(),
               totals.front().size(), ranks, slots_per_rank, repeats);
    fmt::print(
        "| {:<22} | ms a model | us a layer | worst gap | mean gap | layers <= 1e-3 |\n|{:-<24}|-:|-:|-:|-:|-:|\n", "",
        "");
    for (const Arm& arm : arms) {
        const double milliseconds = median(arm.milliseconds);
        fmt::print("| {:<22} | {:.3f} | {:.1f} | {:.1e} | {:.1e} | {}/{} |\n", arm.name, milliseconds,
                   milliseconds * 1e3 / static_cast<double>(totals.size()), arm.worst,
                   arm.sum / static_cast<double>(totals.size()), arm.certified, totals.size());
    }
}

struct Shape {
    int experts, ranks, slots_per_rank;
};

void measure_quality(std::span<const Shape> shapes, int layers, std::int64_t proposals) {
    fmt::print("mean gap to the lower bound over {} made-up layers, and ms a layer (CPU time, one run)\n\n", layers);
    fmt::print(
        "| E, R x S | bound / mean | DeepSeek | exchanges | pair exchanges | annealing, {} proposals |\n"
        "|-|-:|-:|-:|-:|-:|\n",
        proposals);
    for (const Shape& shape : shapes) {
        SampleSpec spec;
        spec.record_slots = spec.filled_slots = 64;
        spec.layers = layers;
        spec.experts = shape.experts;
        spec.top_k = 8;
        spec.ranks = 32;  // the popularity is the same for every shape
        spec.slots_per_rank = shape.experts / 32;
        spec.trivial_balance = 1.7;
        spec.tokens = 8192;
        spec.topics = 16;
        const Totals totals = made_up(spec);
        const int slots = shape.ranks * shape.slots_per_rank;
        std::vector<double> gaps(4), milliseconds(4);
        double bounds = 0;
        for (const auto& layer : totals) {
            const double mean = mean_load(layer, shape.ranks);
            const double bound = window_lower_bound(layer, shape.ranks, shape.slots_per_rank);
            bounds += bound;
            std::vector<ExpertId> row;
            const auto stage = [&](std::size_t index, const std::function<double()>& fit) {
                const double start = cpu_milliseconds();
                gaps[index] += fit() / mean / bound - 1;
                milliseconds[index] += cpu_milliseconds() - start;
            };
            const auto loads_of = [&](std::span<const ExpertId> of) {
                return even_replica_loads(layer, replica_counts(of, shape.experts));
            };
            stage(0, [&] {
                row = deepseek_row(layer, shape.ranks, shape.slots_per_rank);
                return swap_down(row, loads_of(row), shape.ranks, std::numeric_limits<double>::infinity());
            });
            stage(1, [&] {
                const auto replicas = replicate(layer, shape.ranks, slots);
                const auto loads = even_replica_loads(layer, replicas);
                row = place(loads, replicas, shape.ranks, shape.slots_per_rank);
                return swap_down(row, loads, shape.ranks, 0);
            });
            double best = 0;
            stage(2, [&] { return best = swap_pairs_down(row, loads_of(row), shape.ranks, 0); });
            stage(3, [&] {
                if (shape.slots_per_rank == 2) {
                    const auto replicas =
                        anneal_pair_replicas(layer, replica_counts(row, shape.experts), shape.ranks, proposals / 4, 1);
                    const auto loads = even_replica_loads(layer, replicas);
                    auto annealed = place(loads, replicas, shape.ranks, 2);
                    return best = std::min(best, swap_down(annealed, loads, shape.ranks, 0));
                }
                AnnealedRows rows = anneal_window(row, layer, shape.ranks, 0, proposals, 1);
                for (auto* annealed : {&rows.best, &rows.last}) {
                    best = std::min(best, swap_pairs_down(*annealed, loads_of(*annealed), shape.ranks, 0));
                }
                return best;
            });
        }
        const auto n = static_cast<double>(totals.size());
        fmt::print("| {}, {} x {} | {:.4f} |", shape.experts, shape.ranks, shape.slots_per_rank, bounds / n);
        for (std::size_t index = 0; index < gaps.size(); ++index) {
            fmt::print(" {:.1e} in {:.2f} |", gaps[index] / n, milliseconds[index] / n);
        }
        fmt::print("\n");
    }
}

// Replica counts from the totals against those from the peaks, both fitted to 3e-4 where exchanges reach it.
void measure_holdout(const Counts& counts, int ranks, int slots_per_rank) {
    FitProblem problem;
    problem.geometry = {counts.layers(), counts.experts(), ranks, slots_per_rank};
    require_feasible(problem.geometry);
    const auto filled = filled_slots(counts.slot_totals());
    fmt::print("| split | totals: fitted | held out | peaks: fitted | held out |\n|-|-:|-:|-:|-:|\n");
    for (const Holdout holdout : {Holdout::interleave, Holdout::halves}) {
        const RecordSplit split = split_record_slots(filled, holdout);
        problem.layers.clear();
        for (int layer = 0; layer < counts.layers(); ++layer)
            problem.layers.push_back(gather(counts, layer, split.fit));
        fmt::print("| {} |", name_of(holdout));
        for (const bool peaks : {false, true}) {
            const Layout layout =
                fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
                    const auto& of = problem.layers[static_cast<std::size_t>(layer)];
                    const auto weights = peaks ? peak_weights(of) : std::vector<double>{};
                    std::ranges::copy(fit_window_row(totals, weights, ranks, slots_per_rank, {3e-4, 0}, 1).row,
                                      row.begin());
                });
            const auto shares = replica_shares(find_dispatch_model("even"), layout, {});
            for (const auto* slots : {&split.fit, &split.holdout}) {
                const LayoutScore score = score_layout(counts, *slots, layout, shares, 1);
                double sum = 0;
                for (const auto& layer : score.layers) sum += layer ? layer->window : 0;
                fmt::print(" {:.4f} |", sum / score.layers_scored());
            }
        }
        fmt::print("\n");
    }
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.empty()) {
        SampleSpec spec;
        spec.record_slots = spec.filled_slots = 4;
        spec.layers = 3;
        spec.experts = 64;
        spec.top_k = 4;
        spec.ranks = 8;
        spec.slots_per_rank = 9;
        spec.trivial_balance = 1.5;
        spec.tokens = 1024;
        spec.topics = 4;
        measure_speed(made_up(spec), 8, 9, 3);
        measure_quality(std::vector<Shape>{{64, 8, 9}}, 2, 2000);
        return 0;
    }
    if (arguments.size() == 1 && arguments[0] == "quality") {
        measure_quality(std::vector<Shape>{{256, 16, 17},
                                           {256, 32, 9},
                                           {512, 64, 9},
                                           {384, 64, 7},
                                           {256, 64, 5},
                                           {384, 128, 4},
                                           {256, 128, 3},
                                           {256, 144, 2},
                                           {256, 160, 2},
                                           {128, 72, 2}},
                        16, 500'000);
        return 0;
    }
    if (arguments.size() >= 4 && arguments[0] == "holdout") {
        std::vector<Tensor> tensors;
        for (std::size_t i = 3; i < arguments.size(); ++i) tensors.push_back(read_count_file(arguments[i], {}).tensor);
        measure_holdout(Counts(std::move(tensors)), std::stoi(arguments[1]), std::stoi(arguments[2]));
        return 0;
    }
    if (arguments.size() == 3 || arguments.size() == 4) {
        const Counts counts({read_count_file(arguments[0], {}).tensor});
        const int ranks = std::stoi(arguments[1]), slots_per_rank = std::stoi(arguments[2]);
        require_feasible({counts.layers(), counts.experts(), ranks, slots_per_rank});
        measure_speed(totals_of(counts), ranks, slots_per_rank, arguments.size() == 4 ? std::stoi(arguments[3]) : 101);
        return 0;
    }
    fmt::print(
        stderr,
        "usage: window_bench [FILE RANKS SLOTS_PER_RANK [REPEATS] | quality | holdout RANKS SLOTS_PER_RANK FILE...]\n");
    return 2;
}

}  // namespace

int main(int count, char** arguments) try {
    return run({arguments + 1, arguments + count});
} catch (const Error& error) {
    fmt::print(stderr, "window_bench: {}\n", error.what());
    return static_cast<int>(error.code());
}
