#include "fit/step.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/random.hpp"
#include "fit/problem.hpp"
#include "fit/random_counts.hpp"
#include "fit/step_counts.hpp"
#include "fit/window.hpp"

using namespace eplb;

namespace {

FitProblem random_problem(Random& random, int round) {
    FitProblem problem;
    problem.geometry = test::random_geometry(random, 12, 8);
    problem.geometry.layers = 1 + static_cast<int>(random.below(3));
    const int slots = static_cast<int>(random.below(20)), experts = problem.geometry.experts;
    for (int layer = 0; layer < problem.geometry.layers; ++layer) {
        LayerCounts counts = test::bursty_counts(random, slots, experts);
        switch (random.below(6)) {
            case 0:  // a layer without counts
                std::fill(counts.values.begin(), counts.values.end(), 0);
                break;
            case 1:  // sparse, some record slots empty in this layer
                for (auto& count : counts.values) count = random.below(8) == 0 ? count : 0;
                break;
            case 2:  // one giant expert
                for (int slot = 0; slot < slots; ++slot)
                    counts.values[static_cast<std::size_t>(slot * experts)] = 1'000'000'000;
                break;
            case 3:  // near the end of what counts may be
                for (auto& count : counts.values) count *= std::int64_t{1} << 40;
                break;
            default:
                break;
        }
        problem.layers.push_back(std::move(counts));
    }
    problem.objective = Objective::step;
    problem.effort = Effort::fast;
    problem.seed = static_cast<std::uint64_t>(round);
    return problem;
}

}  // namespace

TEST_CASE("on 4000 random shapes the step fit is legal and never worse than the window fit where it was fitted") {
    Random random(40);
    for (int round = 0; round < 4000; ++round) {
        FitProblem problem = random_problem(random, round);
        const FitPolicy& search = find_fit_policy("search");
        const Layout step = fit(search, problem).layout;  // throws when a row is not legal
        for (int layer = 0; layer < problem.geometry.layers; ++layer) {
            const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
            const double reached = test::judged_step(counts, step.row(layer), problem.geometry.ranks);
            INFO("round " << round << ", layer " << layer);
            CHECK(std::isfinite(reached));
            const auto totals = counts.expert_totals();
            if (std::ranges::all_of(totals, [](std::int64_t total) { return total == 0; })) continue;
            const auto window = fit_window_layer(problem, layer, totals).row;
            CHECK(reached <= test::judged_step(counts, window, problem.geometry.ranks));
        }
    }
}

TEST_CASE("the step fit reports the mean step value of the layers done and leaves out those without counts") {
    Random random(9);
    FitProblem problem;
    problem.geometry = {5, 30, 6, 6};
    problem.layers = test::topic_layers(random, 5, 8, 30);
    std::fill(problem.layers[2].values.begin(), problem.layers[2].values.end(), 0);
    problem.objective = Objective::step;
    problem.effort = Effort::fast;
    for (const int threads : {1, 3}) {
        problem.threads = threads;
        std::vector<int> done_seen;
        std::vector<double> best_seen;
        problem.progress.report = [&](int done, int total, double best) {
            CHECK(total == 5);
            done_seen.push_back(done);
            best_seen.push_back(best);
        };
        const Layout layout = fit_step(problem).layout;
        double sum = 0;
        for (int layer = 0; layer < 5; ++layer) {
            if (layer != 2)
                sum += test::judged_step(problem.layers[static_cast<std::size_t>(layer)], layout.row(layer), 6);
        }
        CHECK(done_seen == std::vector<int>{1, 2, 3, 4, 5});
        CHECK(best_seen.back() == Approx(sum / 4).epsilon(1e-12));
        if (threads == 1) CHECK(best_seen[2] == best_seen[1]);  // the third layer has no counts
    }
}

TEST_CASE("the step fit does not depend on the number of threads, and does on the seed") {
    Random random(8);
    FitProblem problem;
    problem.geometry = {6, 40, 8, 6};
    problem.layers = test::topic_layers(random, 6, 12, 40);
    problem.objective = Objective::step;
    problem.effort = Effort::fast;
    const Layout one = fit_step(problem).layout;
    problem.threads = 3;
    CHECK(fit_step(problem).layout == one);
    problem.seed = 1;
    CHECK_FALSE(fit_step(problem).layout == one);
}

TEST_CASE("replica weights go from the mean share to the peaks and beyond") {
    // Both experts have 10 of 20 in all. Expert 0: shares 1 and 0 in slots of equal size; its 8-norm is (1/2)^(1/8).
    const LayerCounts counts{2, 2, {10, 0, 0, 10}};
    const double q = std::pow(0.5, 1.0 / 8);
    CHECK(replica_weights(counts, 0) == std::vector<double>{0.5, 0.5});
    CHECK(replica_weights(counts, 4)[0] == Approx(q));
    CHECK(replica_weights(counts, 6)[1] == Approx(std::pow(0.5, -0.5) * std::pow(q, 1.5)));
    CHECK(replica_weights({1, 3, {4, 0, 4}}, 5) == std::vector<double>{0.5, 0, 0.5});
}

TEST_CASE("more work buys a lower step value on the fitted record slots") {
    Random random(9);
    double sums[3] = {};
    for (std::uint64_t round = 0; round < 6; ++round) {
        const LayerCounts counts = test::bursty_counts(random, 24, 64);
        const auto start = test::random_row(random, 64, 8, 9);
        for (const Effort effort : {Effort::fast, Effort::standard, Effort::thorough}) {
            const auto row = fit_step_row(counts, start, 8, {}, step_work(effort, 24), round).row;
            sums[static_cast<int>(effort)] += test::judged_step(counts, row, 8);
        }
    }
    CHECK(sums[1] < sums[0]);
    CHECK(sums[2] < sums[1]);
}
