// What the balanced dispatch table costs against the even split, on record slots that were fitted and held out;
// dispatch.py makes the tables of docs/benchmarks.md from it.
//   dispatch_bench RANKS SLOTS_PER_RANK OBJECTIVES SPLITS LAYERS FILE...   one JSON object a line
//   dispatch_bench                                                         the same on a small made-up sample
// OBJECTIVES: step, window; SPLITS: interleave, halves, none; joined by commas. LAYERS: the first that many; 0 is all.
// Counts are taken as they stand, without the checks of eplb-fit: layer totals may differ.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_input.hpp"
#include "core/counts.hpp"
#include "core/error.hpp"
#include "core/record_split.hpp"
#include "fit/balanced_table.hpp"
#include "fit/dispatch_fit.hpp"
#include "score/balance.hpp"

using namespace eplb;

namespace {

std::vector<LayerCounts> gather_all(const Counts& counts, const std::vector<int>& slots, int layers) {
    std::vector<LayerCounts> gathered;
    for (int layer = 0; layer < layers; ++layer) gathered.push_back(gather(counts, layer, slots));
    return gathered;
}

// By the judge; nothing for layers without counts.
std::vector<std::optional<LayerBalance>> scores(const std::vector<LayerCounts>& layers, const Layout& layout,
                                                const ReplicaShares& shares) {
    std::vector<std::optional<LayerBalance>> found;
    for (int layer = 0; layer < layout.geometry().layers; ++layer) {
        found.push_back(balance(layers[static_cast<std::size_t>(layer)], layout.row(layer), shares.row(layer),
                                layout.geometry().ranks));
    }
    return found;
}

struct Spread {
    double mean = 0, worst = 0;
};

Spread spread_of(const std::vector<std::optional<LayerBalance>>& layers, double LayerBalance::*value) {
    Spread spread;
    int scored = 0;
    for (const auto& layer : layers) {
        if (!layer) continue;
        spread.mean += (*layer).*value;
        spread.worst = std::max(spread.worst, (*layer).*value);
        ++scored;
    }
    if (scored > 0) spread.mean /= scored;
    return spread;
}

ReplicaShares shares_by(const Layout& layout, const DispatchTable& table) {
    DispatchContext context;
    context.table = &table;
    return replica_shares(find_dispatch_model("table"), layout, context);
}

// A rank with a replica serves itself; the others are dealt to the replicas in turn.
DispatchTable own_then_round_robin(const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    DispatchTable table(geometry.ranks, geometry.layers, geometry.experts);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        std::vector<std::vector<SlotId>> replicas(static_cast<std::size_t>(geometry.experts));
        const auto row = layout.row(layer);
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            replicas[static_cast<std::size_t>(row[slot].value)].push_back(SlotId{static_cast<int>(slot)});
        }
        for (std::size_t expert = 0; expert < replicas.size(); ++expert) {
            std::size_t turn = 0;
            for (int rank = 0; rank < geometry.ranks; ++rank) {
                const auto own = std::ranges::find_if(
                    replicas[expert], [&](SlotId slot) { return slot.value / geometry.slots_per_rank == rank; });
                table.row(rank, layer)[expert] =
                    own != replicas[expert].end() ? *own : replicas[expert][turn++ % replicas[expert].size()];
            }
        }
    }
    return table;
}

void report(const Counts& counts, const std::string& objective, const std::string& split_name, int layers, int ranks,
            int slots_per_rank) {
    const RecordSplit split = split_record_slots(filled_slots(counts.slot_totals()), parse_holdout(split_name));
    FitProblem problem;
    problem.geometry = {layers, counts.experts(), ranks, slots_per_rank};
    problem.layers = gather_all(counts, split.fit, layers);
    problem.objective = objective == "window" ? Objective::window : Objective::step;
    const auto held = gather_all(counts, split.holdout, layers);

    double start = bench::cpu_milliseconds();
    const Layout even = fit(find_fit_policy("search"), problem).layout;
    const double even_ms = bench::cpu_milliseconds() - start;
    start = bench::cpu_milliseconds();
    const BalancedFit fitted = fit_balanced(problem, {});
    const double balanced_ms = bench::cpu_milliseconds() - start;

    const auto value = problem.objective == Objective::window ? &LayerBalance::window : &LayerBalance::step;
    const Layout& layout = fitted.fit.layout;
    const ReplicaShares even_shares = replica_shares(find_dispatch_model("even"), even, {}),
                        shares = shares_by(layout, fitted.table),
                        round_robin = shares_by(layout, own_then_round_robin(layout)),
                        even_dealt = shares_by(even, own_then_round_robin(even));
    const auto ours = scores(problem.layers, layout, shares), dealt = scores(problem.layers, layout, round_robin);
    int worse = 0;
    for (std::size_t layer = 0; layer < ours.size(); ++layer) {
        if (ours[layer]) worse += (*ours[layer]).*value > (*dealt[layer]).*value;
    }
    double certificate = 0;
    int certified = 0;
    for (const auto& optimum : fitted.share_optimum) {
        if (!optimum) continue;
        certificate += *optimum;
        ++certified;
    }
    fmt::print(
        R"({{"objective": "{}", "split": "{}", "record_slots": {}, "layers": {}, "even_fit": {:.6f}, "even_held": {:.6f}, "even_dealt_fit": {:.6f}, "even_dealt_held": {:.6f}, )"
        R"("fit": {:.6f}, "fit_worst": {:.6f}, "held": {:.6f}, "round_robin_fit": {:.6f}, "worse_layers": {}, )"
        R"("certificate": {:.6f}, "even_ms": {:.3f}, "balanced_ms": {:.3f}}})",
        objective, split_name, split.fit.size(), layers,
        spread_of(scores(problem.layers, even, even_shares), value).mean,
        spread_of(scores(held, even, even_shares), value).mean,
        spread_of(scores(problem.layers, even, even_dealt), value).mean,
        spread_of(scores(held, even, even_dealt), value).mean, spread_of(ours, value).mean,
        spread_of(ours, value).worst, spread_of(scores(held, layout, shares), value).mean, spread_of(dealt, value).mean,
        worse, certified > 0 ? certificate / certified : 0, even_ms / layers, balanced_ms / layers);
    fmt::print("\n");
    std::fflush(stdout);
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.empty()) {
        const SampleSpec spec = bench::small_spec();
        const Counts counts = bench::made_up_counts(spec);
        for (const char* objective : {"step", "window"}) {
            for (const char* split : {"interleave", "none"}) {
                report(counts, objective, split, spec.layers, spec.ranks, spec.slots_per_rank);
            }
        }
        return 0;
    }
    if (arguments.size() < 6) {
        fmt::print(stderr, "usage: dispatch_bench [RANKS SLOTS_PER_RANK OBJECTIVES SPLITS LAYERS FILE...]\n");
        return 2;
    }
    const int ranks = std::stoi(arguments[0]), slots_per_rank = std::stoi(arguments[1]);
    const Counts counts = bench::read_counts({arguments.begin() + 5, arguments.end()});
    const int first = std::stoi(arguments[4]), layers = first == 0 ? counts.layers() : std::min(first, counts.layers());
    require_feasible({layers, counts.experts(), ranks, slots_per_rank});
    for (const std::string& objective : bench::parts_of(arguments[2])) {
        for (const std::string& split : bench::parts_of(arguments[3])) {
            report(counts, objective, split, layers, ranks, slots_per_rank);
        }
    }
    return 0;
}

}  // namespace

int main(int count, char** arguments) try {
    return run({arguments + 1, arguments + count});
} catch (const Error& error) {
    fmt::print(stderr, "dispatch_bench: {}\n", error.what());
    return static_cast<int>(error.code());
}
