// Fits for the rule by which an engine picks replicas.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/parallel_loop.hpp"
#include "dispatch/replica_lists.hpp"
#include "dispatch/static_dealer.hpp"
#include "fit/dispatch_fit.hpp"
#include "fit/dispatch_search.hpp"
#include "fit/layer_shares.hpp"
#include "fit/layers.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/policies.hpp"
#include "fit/replicate.hpp"
#include "score/balance.hpp"

namespace eplb {
namespace {

using Row = std::vector<ExpertId>;

Row row_of(const Layout& layout, int layer) {
    const auto row = layout.row(layer);
    return {row.begin(), row.end()};
}

// Replicas for the peaks, longest first: good under the even split, a beginning under any other.
Row first_row(const FitProblem& problem, int layer) {
    const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
    const Geometry& geometry = problem.geometry;
    const auto replicas = replicate(peak_weights(counts), geometry.ranks, geometry.physical_slots());
    return place(even_replica_loads(counts.expert_totals(), replicas), replicas, geometry.ranks,
                 geometry.slots_per_rank);
}

// The fit without redundancy in a layout that has some: the spare slot of every rank is given to the coldest expert
// that the rank does not hold. A copy on every rank serves its own rank under all rules, and the traffic is that of the
// coldest. Nothing where the experts do not fill the ranks evenly.
std::optional<Layout> without_redundancy(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    if (geometry.redundant_total() == 0 || geometry.experts % geometry.ranks != 0) return std::nullopt;
    FitProblem bare = problem;
    bare.geometry.slots_per_rank = geometry.experts / geometry.ranks;
    const Layout fitted = policy::search(bare).layout;
    const auto own = static_cast<std::size_t>(bare.geometry.slots_per_rank);
    const auto all = static_cast<std::size_t>(geometry.slots_per_rank);
    Layout layout(geometry);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        if (!has_counts(problem.layers[static_cast<std::size_t>(layer)])) {
            fill_trivial_row(layout.row(layer), geometry.experts);
            continue;
        }
        const auto totals = problem.layers[static_cast<std::size_t>(layer)].expert_totals();
        std::vector<int> coldest(totals.size());
        std::iota(coldest.begin(), coldest.end(), 0);
        std::stable_sort(coldest.begin(), coldest.end(), [&](int a, int b) {
            return totals[static_cast<std::size_t>(a)] < totals[static_cast<std::size_t>(b)];
        });
        for (int rank = 0; rank < geometry.ranks; ++rank) {
            const auto held = fitted.row(layer).subspan(static_cast<std::size_t>(rank) * own, own);
            const auto slots = layout.row(layer).subspan(static_cast<std::size_t>(rank) * all, all);
            std::ranges::copy(held, slots.begin());
            std::size_t filled = own;
            for (const int expert : coldest) {
                if (filled == all) break;
                if (std::ranges::find(held, ExpertId{expert}) == held.end()) slots[filled++] = ExpertId{expert};
            }
        }
    }
    return layout;
}

// A stream of random numbers of its own for every search of every layer.
Random stream_of(const FitProblem& problem, int layer, std::uint64_t run) {
    const auto index = static_cast<std::uint64_t>(layer);
    return Random(stream_seed(problem.seed, run < 2 ? 2 * index + run : (std::uint64_t{1} << 32) + 256 * index + run));
}

// One search of a layer from one start, with what it reached on the fitted record slots.
struct Found {
    SharedRow shared;
    double reached = 0;
};

Found found_from(const FitProblem& problem, int layer, const ShareRule& rule, Row start, std::int64_t proposals,
                 const Cooling& cooling, std::uint64_t run) {
    DispatchSearch search(energy_of(problem, layer), problem.geometry.slots_per_rank, rule, {std::move(start), {}});
    Found found{search.best(), objective_of(problem, layer, search.best())};
    search.run(proposals, cooling, stream_of(problem, layer, run));
    if (const double reached = objective_of(problem, layer, search.best()); reached < found.reached) {
        found = {search.best(), reached};
    }
    return found;
}

// The row with the replicas of experts whose place decides who draws moved to other ranks of their nodes: other
// streams, other shares. Nothing where there are none.
std::optional<Row> shuffled_places(const Row& row, const ShareRule& rule, int experts, int slots_per_rank,
                                   Random& random) {
    Row moved = row;
    const dispatch::ReplicaLists lists(row, experts);
    const DispatchSource& any = rule.sources.front();
    const int ranks = static_cast<int>(row.size()) / slots_per_rank;
    bool changed = false;
    const auto holds = [&](int rank, ExpertId expert) {
        const auto first = moved.begin() + static_cast<std::ptrdiff_t>(rank) * slots_per_rank;
        return std::find(first, first + slots_per_rank, expert) != first + slots_per_rank;
    };
    for (int expert = 0; expert < experts; ++expert) {
        const auto replicas = lists.of(expert);
        if (!place_moves_streams(*rule.model, any, replicas) || random.below(4) != 0) continue;
        const SlotId slot = replicas[random.below(static_cast<std::uint32_t>(replicas.size()))];
        const int first_rank = any.node_of(slot) * any.ranks_per_node;
        const int node_ranks = std::min(any.ranks_per_node, ranks - first_rank);
        const int rank = first_rank + static_cast<int>(random.below(static_cast<std::uint32_t>(node_ranks)));
        const auto other =
            static_cast<std::size_t>(rank * slots_per_rank) + random.below(static_cast<std::uint32_t>(slots_per_rank));
        const auto here = static_cast<std::size_t>(slot.value);
        const ExpertId a = moved[here], b = moved[other];
        if (lists.of(b.value).size() > 1 || a.value != expert) continue;
        if (rank == any.rank_of(slot) || holds(rank, a)) continue;
        std::swap(moved[here], moved[other]);
        changed = true;
    }
    if (!changed) return std::nullopt;
    return moved;
}

int variants_of(Effort effort) {
    switch (effort) {
        case Effort::fast:
            return 8;
        case Effort::standard:
            return 24;
        case Effort::thorough:
            return 64;
    }
    return 24;
}

// Layers in order, each from several starts under what the streams deal there after the layers before.
Layout fit_dealt(const FitProblem& problem, const DispatchModel& model, const ShareRule& rule,
                 const std::vector<const Layout*>& starts) {
    const Geometry& geometry = problem.geometry;
    Layout result(geometry);
    dispatch::StaticDealer dealer(*model.seeded, rule.sources);
    double sum = 0;
    int with_counts = 0;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        Row best;
        if (!has_counts(problem.layers[static_cast<std::size_t>(layer)])) {
            best.resize(static_cast<std::size_t>(geometry.physical_slots()));
            fill_trivial_row(best, geometry.experts);
        } else {
            const auto search_all = [&](const std::vector<Row>& rows, std::int64_t proposals, std::uint64_t run) {
                std::vector<Found> found(rows.size());
                for_each_index(static_cast<int>(rows.size()), problem.threads, [&](int i) {
                    const auto index = static_cast<std::size_t>(i);
                    dispatch::StaticDealer trial = dealer;
                    const ShareRule dealt{&model, rule.sources,
                                          dealt_sources(trial, model, rule.sources, rows[index], geometry.experts)};
                    found[index] = found_from(problem, layer, dealt, rows[index], proposals, from_scratch, run + index);
                });
                return *std::min_element(found.begin(), found.end(),
                                         [](const Found& a, const Found& b) { return a.reached < b.reached; });
            };
            std::vector<Row> rows;
            for (const Layout* start : starts) rows.push_back(row_of(*start, layer));
            const std::int64_t proposals = proposals_of(problem.effort);
            Found found = search_all(rows, proposals, 1);
            // Where the places of replicas decide who draws, the shares are a matter of luck: tried again and again,
            // from the best so far.
            Random random = stream_of(problem, layer, 255);
            constexpr int at_once = 4;  // not the number of threads, on which the result would depend
            for (int round = 0; round < variants_of(problem.effort) / at_once; ++round) {
                rows.clear();
                for (int i = 0; i < at_once; ++i) {
                    if (auto moved = shuffled_places(found.shared.row, rule, geometry.experts, geometry.slots_per_rank,
                                                     random)) {
                        rows.push_back(std::move(*moved));
                    }
                }
                if (rows.empty()) break;
                Found variant = search_all(rows, proposals / 4, static_cast<std::uint64_t>(16 + round * at_once));
                if (variant.reached < found.reached) found = std::move(variant);
            }
            best = std::move(found.shared.row);
            sum += found.reached;
            ++with_counts;
        }
        dealt_sources(dealer, model, rule.sources, best, geometry.experts);
        std::ranges::copy(best, result.row(layer).begin());
        if (problem.progress.report) {
            problem.progress.report(layer + 1, geometry.layers, with_counts > 0 ? sum / with_counts : 0);
        }
        if (problem.progress.stop()) throw Interrupted{};
    }
    return result;
}

// The sum of the objective under the rule over the layers with counts.
double sum_of_objective(const FitProblem& problem, const DispatchModel& model, const DispatchContext& context,
                        const Layout& layout) {
    const ReplicaShares shares = replica_shares(model, layout, context);
    double sum = 0;
    for (int layer = 0; layer < problem.geometry.layers; ++layer) {
        const auto row = layout.row(layer);
        const auto reached =
            balance(problem.layers[static_cast<std::size_t>(layer)], row, shares.row(layer), problem.geometry.ranks);
        if (reached) sum += problem.objective == Objective::window ? reached->window : reached->step;
    }
    return sum;
}

}  // namespace

FitResult fit_for_rule(const FitProblem& problem, const DispatchModel& model, const DispatchContext& context) {
    if (model.targets == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch",
                    fmt::format("a fit for {} is not possible: its choice follows from no rule", model.name));
    }
    require_context(model, context);
    if (is_even(model)) return policy::search(problem);
    const Geometry& geometry = problem.geometry;
    DispatchContext used = context;
    if (!model.needs_nodes) used.nodes.reset();
    const ShareRule rule{&model, dispatch_sources(geometry, used), {}};
    const int parts = model.seeded != nullptr ? 4 : 3;

    // Where to start from, and what never to be worse than: the fit for the even split, and none of the redundancy.
    const Layout even = policy::search(part_of(problem, 0, parts)).layout;
    const std::optional<Layout> bare = without_redundancy(part_of(problem, 1, parts));
    FitResult result{Layout(geometry), {}};
    const FitProblem expected_part = part_of(problem, 2, parts);
    for_each_layer(expected_part, [&](int layer) {
        const auto row = result.layout.row(layer);
        if (!has_counts(problem.layers[static_cast<std::size_t>(layer)])) {
            fill_trivial_row(row, geometry.experts);
            return;
        }
        const std::int64_t proposals = proposals_of(problem.effort);
        Found best = found_from(problem, layer, rule, first_row(problem, layer), proposals, from_scratch, 0);
        if (model.seeded == nullptr) {
            const auto keep_better = [&](const Layout& start, std::uint64_t run) {
                Found found = found_from(problem, layer, rule, row_of(start, layer), proposals / 2, from_even_fit, run);
                if (found.reached < best.reached) best = std::move(found);
            };
            keep_better(even, 2);
            if (bare) keep_better(*bare, 3);
        }
        std::ranges::copy(best.shared.row, row.begin());
    });
    if (model.seeded == nullptr) return result;

    const Layout expected = result.layout;
    std::vector<const Layout*> starts{&expected, &even};
    if (bare) starts.push_back(&*bare);
    result.layout = fit_dealt(part_of(problem, 3, parts), model, rule, starts);
    // In another layer's streams a start may have been better than all that was found in order.
    double reached = sum_of_objective(problem, model, used, result.layout);
    for (const Layout* start : starts) {
        if (const double value = sum_of_objective(problem, model, used, *start); value < reached) {
            reached = value;
            result.layout = *start;
        }
    }
    return result;
}

}  // namespace eplb
