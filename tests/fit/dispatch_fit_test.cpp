#include "fit/dispatch_fit.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "check/layout.hpp"
#include "core/error.hpp"
#include "fit/balanced_table.hpp"
#include "fit/dispatch_search.hpp"
#include "fit/layer_shares.hpp"
#include "fit/share_bound.hpp"
#include "rows.hpp"
#include "score/balance.hpp"
#include "step_counts.hpp"

using namespace eplb;
using eplb::test::row_of;

namespace {

std::vector<DispatchSource> sources_of(int ranks, int slots_per_rank, int nodes) {
    DispatchContext context;
    context.nodes = nodes;
    return dispatch_sources({1, 1, ranks, slots_per_rank}, context);
}

FitProblem problem_of(const Geometry& geometry, int record_slots, std::uint64_t seed, Objective objective) {
    FitProblem problem;
    problem.geometry = geometry;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        Random random(seed + static_cast<unsigned>(layer));
        problem.layers.push_back(test::bursty_counts(random, record_slots, geometry.experts));
    }
    problem.objective = objective;
    problem.effort = Effort::fast;
    problem.seed = 5;
    return problem;
}

// Of one layer, by the judge.
LayerBalance scored(const FitProblem& problem, const Layout& layout, const ReplicaShares& shares, int layer) {
    return balance(problem.layers[static_cast<std::size_t>(layer)], layout.row(layer), shares.row(layer),
                   problem.geometry.ranks)
        .value();
}

double mean_step(const FitProblem& problem, const Layout& layout, const ReplicaShares& shares) {
    double sum = 0;
    for (int layer = 0; layer < problem.geometry.layers; ++layer) sum += scored(problem, layout, shares, layer).step;
    return sum / problem.geometry.layers;
}

ReplicaShares shares_of(const BalancedFit& fit) {
    DispatchContext context;
    context.table = &fit.table;
    return replica_shares(find_dispatch_model("table"), fit.fit.layout, context);
}

// The largest quotient tokens / ranks over all sets of experts: the real-valued optimum by its definition.
double optimum_by_subsets(const std::vector<std::int64_t>& totals, const std::vector<ExpertId>& row, int ranks) {
    const std::size_t slots_per_rank = row.size() / static_cast<std::size_t>(ranks);
    double best = 0, total = 0;
    for (const std::int64_t count : totals) total += static_cast<double>(count);
    for (unsigned subset = 1; subset < 1u << totals.size(); ++subset) {
        std::set<std::size_t> reached;
        double tokens = 0;
        for (std::size_t expert = 0; expert < totals.size(); ++expert) {
            if ((subset >> expert & 1u) != 0) tokens += static_cast<double>(totals[expert]);
        }
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            if ((subset >> row[slot].value & 1u) != 0) reached.insert(slot / slots_per_rank);
        }
        best = std::max(best, tokens / static_cast<double>(reached.size()));
    }
    return best / (total / ranks);
}

}  // namespace

TEST_CASE("the balanced table serves as many ranks a replica as asked, its own first and then its node") {
    // Expert 0 on ranks 0, 1 and 4 of six on two nodes; rank 1's replica serves nobody.
    const auto row = row_of({0, 0, 1, 2, 0, 3});
    DispatchTable table(6, 1, 4);
    fill_balanced_layer(table, 0, row, std::vector<double>{4, 0, 6, 6, 2, 6}, sources_of(6, 1, 2));
    std::vector<int> slots;
    for (int rank = 0; rank < 6; ++rank) slots.push_back(table.row(rank, 0)[0].value);
    // Ranks 1 and 2 stay on node 0, rank 3 on node 1; for rank 5 only node 0 has room.
    CHECK(slots == std::vector<int>{0, 0, 0, 4, 4, 0});
    for (int rank = 0; rank < 6; ++rank) CHECK(table.row(rank, 0)[3].value == 5);
}

TEST_CASE("of several replicas on the node the one with the most left is next") {
    const auto row = row_of({0, 0, 1, 2});
    DispatchTable table(4, 1, 3);
    fill_balanced_layer(table, 0, row, std::vector<double>{1, 3, 4, 4}, sources_of(4, 1, 1));
    CHECK(table.row(0, 0)[0].value == 0);
    for (const int rank : {1, 2, 3}) CHECK(table.row(rank, 0)[0].value == 1);
}

TEST_CASE("the real-valued optimum is that of the tightest set of experts") {
    // Expert 0 fits on its two ranks, but with expert 1 beside it rank 0 is short: {0, 1} has 90 tokens for two ranks.
    const std::vector<std::int64_t> totals{60, 30, 10, 20};
    CHECK(window_share_optimum(totals, row_of({0, 1, 0, 2, 3, 2}), 3) == Approx(45.0 / 40));
    Random random(3);
    for (int repeat = 0; repeat < 60; ++repeat) {
        const int ranks = 2 + static_cast<int>(random.below(4)), slots = 2;
        const int experts = ranks + static_cast<int>(random.below(static_cast<std::uint32_t>(ranks)));
        std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
        for (auto& count : counts) count = random.below(100);
        counts[0] += 1;
        std::vector<ExpertId> row(static_cast<std::size_t>(ranks * slots));
        fill_trivial_row(row, experts);
        for (std::size_t i = row.size(); i-- > static_cast<std::size_t>(experts);) {
            row[i] = ExpertId{static_cast<int>(random.below(static_cast<std::uint32_t>(experts)))};
        }
        CHECK(window_share_optimum(counts, row, ranks) == Approx(optimum_by_subsets(counts, row, ranks)));
    }
}

TEST_CASE("the bound for the step value is the mean of the slots' own optima, weighted by what they hold") {
    // Row 0 1 | 0 2 as {0, 1}, {0, 2}. First slot: expert 0 evens out 30 + 10 and 20: 30 a rank. Second: expert 2
    // alone.
    const LayerCounts counts{3, 3, {30, 10, 20, 0, 0, 0, 0, 0, 40}};
    const auto row = row_of({0, 1, 0, 2});
    CHECK(step_share_optimum(counts, row, 2) == Approx((30.0 + 40.0) / (30.0 + 20.0)));
}

TEST_CASE("the predicted change of the energy is never below the true one") {
    const Geometry geometry{1, 20, 6, 4};
    Random random(8);
    const LayerCounts counts = test::bursty_counts(random, 11, geometry.experts);
    ShareEnergy energy(slot_shares(counts, geometry.ranks), geometry.ranks, 4);
    std::vector<std::vector<double>> share(6, std::vector<double>(20));  // [rank][expert], any numbers
    for (auto& row : share) {
        for (double& value : row) value = random.unit() / 3;
    }
    const auto rebuild = [&](ShareEnergy& fresh) {
        fresh.clear();
        for (int rank = 0; rank < 6; ++rank) {
            for (int expert = 0; expert < 20; ++expert) {
                fresh.place(rank, expert, share[static_cast<std::size_t>(rank)][static_cast<std::size_t>(expert)]);
            }
        }
        fresh.refresh();
    };
    rebuild(energy);
    for (int move = 0; move < 200; ++move) {
        const double before = energy.value();
        energy.begin();
        for (int change = 0; change < 3; ++change) {
            const auto rank = random.below(6), expert = random.below(20);
            const double difference = (random.unit() - 0.5) * share[rank][expert];
            share[rank][expert] += difference;
            energy.change(static_cast<int>(rank), static_cast<int>(expert), difference);
        }
        const double predicted = energy.delta();
        energy.commit();
        CHECK(energy.value() - before <= predicted + 1e-5);
        ShareEnergy fresh = energy;
        rebuild(fresh);
        CHECK(energy.value() == Approx(fresh.value()).epsilon(1e-5));
        energy = fresh;  // the tangent is taken anew, as predicted is about the present state
    }
}

TEST_CASE("a search keeps its books: shares follow the rule, and the best row is worth what it says") {
    const Geometry geometry{1, 20, 8, 4};
    Random random(4);
    const LayerCounts counts = test::bursty_counts(random, 9, geometry.experts);
    const auto start_row = test::random_row(random, geometry.experts, geometry.ranks, geometry.slots_per_rank);
    for (const char* name : {"", "sglang-b-fill-all", "vllm-ascend", "omni", "even"}) {
        const bool free = name[0] == '\0';
        const ShareRule rule{free ? nullptr : &find_dispatch_model(name), sources_of(8, 4, 2), {}};
        const ShareEnergy energy(slot_shares(counts, 8), 8, 4);
        DispatchSearch search(energy, 4, rule, {start_row, {}});
        const double start = search.best_value();
        search.run(4000, Cooling{0.1, 0.001}, Random(2));
        const SharedRow best = search.best();
        CHECK(search.best_value() < start);

        Layout layout(geometry, best.row);
        CHECK(check_layout(layout).empty());
        ShareEnergy fresh(slot_shares(counts, 8), 8, 4);
        fresh.clear();
        std::vector<double> sum(20);
        std::map<int, std::vector<SlotId>> replicas;
        for (int slot = 0; slot < 32; ++slot) {
            const auto index = static_cast<std::size_t>(slot);
            fresh.place(slot / 4, best.row[index].value, best.share[index] / 8);
            sum[static_cast<std::size_t>(best.row[index].value)] += best.share[index];
            replicas[best.row[index].value].push_back(SlotId{slot});
            if (free) CHECK((best.share[index] == static_cast<int>(best.share[index]) && best.share[index] >= 0));
        }
        fresh.refresh();
        CHECK(search.best_value() == Approx(fresh.value()).epsilon(1e-4));
        for (const double all : sum) CHECK(all == Approx(8));
        if (free) continue;
        for (const auto& [expert, slots] : replicas) {
            std::vector<int> settled(slots.size());
            const int others = settled_sources(*rule.model, rule.sources, slots, expert, settled);
            for (std::size_t i = 0; i < slots.size(); ++i) {
                CHECK(best.share[static_cast<std::size_t>(slots[i].value)] ==
                      Approx(settled[i] + others / static_cast<double>(slots.size())));
            }
        }
    }
}

TEST_CASE("a search under a dealt table leaves the streams as they are: the table deals what it was told") {
    const Geometry geometry{3, 20, 8, 4};
    Random random(14);
    const LayerCounts counts = test::bursty_counts(random, 9, geometry.experts);
    for (const DispatchModel& model : dispatch_models()) {
        if (model.seeded == nullptr) continue;
        for (const int nodes : {1, 2, 4}) {
            INFO(model.name << " on " << nodes << " nodes");
            DispatchContext context;
            context.nodes = nodes;
            Layout layout(geometry);
            for (int layer = 0; layer < geometry.layers; ++layer) {
                std::ranges::copy(test::random_row(random, geometry.experts, geometry.ranks, geometry.slots_per_rank),
                                  layout.row(layer).begin());
            }
            const ReplicaShares before = replica_shares(model, layout, context);
            ShareRule rule{&model, dispatch_sources(geometry, context), {}};
            dispatch::StaticDealer dealer(*model.seeded, rule.sources);
            dealt_sources(dealer, model, rule.sources, layout.row(0), geometry.experts);
            rule.dealt = dealt_sources(dealer, model, rule.sources, layout.row(1), geometry.experts);
            const std::vector<ExpertId> start(layout.row(1).begin(), layout.row(1).end());
            DispatchSearch search(ShareEnergy(slot_shares(counts, 8), 8, 4), 4, rule, {start, {}});
            search.run(4000, Cooling{0.1, 0.001}, Random(2));
            CHECK(search.best().row != start);
            std::ranges::copy(search.best().row, layout.row(1).begin());

            const ReplicaShares after = replica_shares(model, layout, context);
            for (std::size_t slot = 0; slot < 32; ++slot) {
                CHECK(after.row(1)[slot] * 8 == Approx(search.best().share[slot]));
                CHECK(after.row(2)[slot] == before.row(2)[slot]);
            }
        }
    }
}

TEST_CASE("balanced: whole ranks as shares reach the optimum of a tiny problem") {
    // 3 experts on 2 ranks x 2 slots, one redundant. With expert 0 twice a rank carries half of it and another expert:
    // 55 against 45, or all of it on one: 70. With expert 1 twice, on one rank: 50 against 50; nothing is better.
    FitProblem problem;
    problem.geometry = {1, 3, 2, 2};
    problem.layers = {LayerCounts{1, 3, {50, 30, 20}}};
    problem.effort = Effort::fast;
    const BalancedFit fit = fit_balanced(problem, {});
    const ReplicaShares shares = shares_of(fit);
    CHECK(scored(problem, fit.fit.layout, shares, 0).window == Approx(1.0));
}

TEST_CASE("balanced: legal, a table for the layout, no worse than round robin on any layer, near the certificate") {
    for (const Objective objective : {Objective::window, Objective::step}) {
        const Geometry geometry{3, 40, 8, 6};
        const FitProblem problem = problem_of(geometry, 12, 20, objective);
        DispatchContext context;
        context.nodes = 2;
        const BalancedFit fit = fit_balanced(problem, context);
        CHECK(check_layout(fit.fit.layout).empty());
        const ReplicaShares shares = shares_of(fit);  // throws when a target does not host its expert

        DispatchTable dealt(geometry.ranks, geometry.layers, geometry.experts);
        const auto sources = dispatch_sources(geometry, context);
        for (int layer = 0; layer < geometry.layers; ++layer) {
            const auto row = fit.fit.layout.row(layer);
            const auto counts = replica_counts(row, geometry.experts);
            std::vector<int> seen(counts.size());
            std::vector<double> served;
            for (const ExpertId expert : row) {
                const int replicas = counts[static_cast<std::size_t>(expert.value)], others = 8 - replicas;
                const int turn = seen[static_cast<std::size_t>(expert.value)]++;
                served.push_back(1 + others / replicas + (turn < others % replicas ? 1 : 0));
            }
            fill_balanced_layer(dealt, layer, row, served, sources);
        }
        context.table = &dealt;
        const ReplicaShares round_robin = replica_shares(find_dispatch_model("table"), fit.fit.layout, context);
        for (int layer = 0; layer < geometry.layers; ++layer) {
            const LayerBalance ours = scored(problem, fit.fit.layout, shares, layer);
            const LayerBalance theirs = scored(problem, fit.fit.layout, round_robin, layer);
            if (objective == Objective::step) {
                CHECK(ours.step <= theirs.step);
                CHECK(ours.step >= fit.share_optimum[static_cast<std::size_t>(layer)].value() - 1e-12);
            } else {
                CHECK(ours.window <= theirs.window);
                CHECK(ours.window >= fit.share_optimum[static_cast<std::size_t>(layer)].value() - 1e-12);
                CHECK(ours.window < 1.003);
            }
        }
        // Ranks that hold an expert are served by themselves, unless their replica was better left without traffic.
        int own = 0, holders = 0;
        for (int layer = 0; layer < geometry.layers; ++layer) {
            const auto row = fit.fit.layout.row(layer);
            for (int slot = 0; slot < geometry.physical_slots(); ++slot) {
                const int expert = row[static_cast<std::size_t>(slot)].value;
                ++holders;
                own += fit.table.row(slot / 6, layer)[static_cast<std::size_t>(expert)].value == slot;
            }
        }
        CHECK(own > holders * 95 / 100);
    }
}

TEST_CASE("balanced: where the slots predict nothing a search cannot pay, and the even fit is dealt in turn") {
    const Geometry geometry{8, 96, 32, 4};
    FitProblem problem;
    problem.geometry = geometry;
    Random random(9);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        LayerCounts& counts = problem.layers.emplace_back(LayerCounts{8, geometry.experts, {}});
        for (int i = 0; i < counts.slots * counts.experts; ++i) counts.values.push_back(random.below(1000));
    }
    problem.objective = Objective::step;
    problem.effort = Effort::fast;
    const BalancedFit fit = fit_balanced(problem, {});
    CHECK(fit.fit.layout == eplb::fit(find_fit_policy("search"), problem).layout);
    const bool said = std::ranges::any_of(
        fit.fit.notes, [](const std::string& note) { return note.find("dealt in turn") != std::string::npos; });
    CHECK(said);

    // The same slots again and again predict each other.
    for (LayerCounts& counts : problem.layers) {
        for (int slot = 1; slot < counts.slots; ++slot) {
            std::copy_n(counts.values.begin(), counts.experts, counts.values.begin() + slot * counts.experts);
        }
    }
    const BalancedFit searched = fit_balanced(problem, {});
    const Layout even = eplb::fit(find_fit_policy("search"), problem).layout;
    CHECK(!(searched.fit.layout == even));
    CHECK(mean_step(problem, searched.fit.layout, shares_of(searched)) < 1.01);
}

TEST_CASE("fits for a dispatch do not depend on the threads, and a layer without counts gets the trivial row") {
    FitProblem problem = problem_of({4, 24, 8, 4}, 6, 30, Objective::step);
    std::fill(problem.layers[2].values.begin(), problem.layers[2].values.end(), 0);
    DispatchContext context;
    context.nodes = 4;
    const BalancedFit once = fit_balanced(problem, context);
    const FitResult rule_once = fit_for_rule(problem, find_dispatch_model("sglang-c"), context);
    problem.threads = 3;
    const BalancedFit again = fit_balanced(problem, context);
    CHECK(once.fit.layout == again.fit.layout);
    CHECK(once.table == again.table);
    CHECK(rule_once.layout == fit_for_rule(problem, find_dispatch_model("sglang-c"), context).layout);
    for (const Layout* layout : {&once.fit.layout, &rule_once.layout}) {
        std::vector<ExpertId> trivial(32);
        fill_trivial_row(trivial, 24);
        CHECK(std::equal(trivial.begin(), trivial.end(), layout->row(2).begin()));
    }
}

TEST_CASE("a fit for a rule is legal and better under that rule than the fit for the even split") {
    const Geometry geometry{4, 40, 16, 4};
    const FitProblem problem = problem_of(geometry, 8, 40, Objective::step);
    const Layout even = fit(find_fit_policy("search"), problem).layout;
    for (const DispatchModel& model : dispatch_models()) {
        if (model.name == "table" || is_even(model)) continue;
        for (const int nodes : {1, 2, 4}) {
            DispatchContext context;
            context.nodes = nodes;
            if (model.uses_tensor_parallel) context.tensor_parallel = nodes;
            INFO(model.name << " on " << nodes << " nodes");
            const FitResult fitted = fit_for_rule(problem, model, context);
            CHECK(check_layout(fitted.layout).empty());
            CHECK(mean_step(problem, fitted.layout, replica_shares(model, fitted.layout, context)) <
                  mean_step(problem, even, replica_shares(model, even, context)));
        }
    }
}

TEST_CASE("a fit for a rule is no worse under it than the fit for the even split and than no redundancy") {
    // Where topics do not come back there is little to win, and what is left of a bad split shows.
    const FitProblem problem = problem_of({3, 32, 8, 5}, 6, 60, Objective::step);
    FitProblem bare = problem;
    bare.geometry.slots_per_rank = 4;
    const Layout even = fit(find_fit_policy("search"), problem).layout,
                 none = fit(find_fit_policy("search"), bare).layout;
    const double without = mean_step(bare, none, replica_shares(find_dispatch_model("even"), none, {}));
    for (const DispatchModel& model : dispatch_models()) {
        if (model.name == "table" || is_even(model)) continue;
        for (const int nodes : {1, 2, 4}) {
            DispatchContext context;
            context.nodes = nodes;
            INFO(model.name << " on " << nodes << " nodes");
            const Layout fitted = fit_for_rule(problem, model, context).layout;
            const double reached = mean_step(problem, fitted, replica_shares(model, fitted, context));
            CHECK(reached <= mean_step(problem, even, replica_shares(model, even, context)));
            CHECK(reached <= without);
        }
    }
}

TEST_CASE("models that split evenly are fitted as such, and a given table cannot be fitted for") {
    const FitProblem problem = problem_of({2, 24, 8, 4}, 6, 50, Objective::step);
    CHECK(fit_for_rule(problem, find_dispatch_model("vllm"), {}).layout ==
          fit(find_fit_policy("search"), problem).layout);
    CHECK_THROWS_AS(fit_for_rule(problem, find_dispatch_model("table"), {}), Error);
    CHECK_THROWS_AS(fit_for_rule(problem, find_dispatch_model("sglang-c"), {}), Error);  // no --nodes
}
