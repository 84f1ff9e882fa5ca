#include "fit/window.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "core/layout.hpp"
#include "core/random.hpp"
#include "fit/random_counts.hpp"
#include "fit/step_counts.hpp"
#include "fit/window_objective.hpp"
#include "score/best_window.hpp"

using namespace eplb;

namespace {

// Largest rank load, from scratch.
double largest_load(std::span<const std::int64_t> totals, std::span<const ExpertId> row, int ranks) {
    const auto replicas = replica_counts(row, static_cast<int>(totals.size()));
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    double largest = 0;
    for (std::size_t first = 0; first < row.size(); first += slots) {
        double load = 0;
        for (std::size_t slot = first; slot < first + slots; ++slot) {
            const auto e = static_cast<std::size_t>(row[slot].value);
            load += static_cast<double>(totals[e]) / replicas[e];
        }
        largest = std::max(largest, load);
    }
    return largest;
}

double fitted_load(std::vector<std::int64_t> totals, int ranks, int slots_per_rank) {
    return largest_load(totals, fit_window_row(totals, {}, ranks, slots_per_rank, {}, 0).row, ranks);
}

}  // namespace

TEST_CASE("80, 60, 10, 10 on 2 ranks x 3 slots is balanced perfectly") {
    CHECK(fitted_load({80, 60, 10, 10}, 2, 3) == 80);
}
TEST_CASE("eight experts on 8 devices x 2 slots reach 196.67, where published fitters reach 232 and 205") {
    // Worked example of vLLM pull request 37656.
    CHECK(fitted_load({600, 560, 120, 120, 20, 10, 10, 10}, 8, 2) == Approx(590.0 / 3));
}

TEST_CASE("tiny problems are solved to the optimum nearly always, and never to less than it") {
    Random random(30);
    int problems = 0, exact = 0;
    double worst = 1;
    for (int round = 0; round < 300; ++round) {
        const int ranks = 1 + static_cast<int>(random.below(4)), slots = 1 + static_cast<int>(random.below(3));
        const int least = std::max(slots, ranks * slots - 5);
        const int experts =
            least + static_cast<int>(random.below(static_cast<std::uint32_t>(ranks * slots - least + 1)));
        std::vector<std::int64_t> totals = test::random_weights(random, experts);
        for (std::int64_t& total : totals) total %= 100'000;
        if (std::accumulate(totals.begin(), totals.end(), std::int64_t{0}) == 0) continue;
        const double optimum =
            static_cast<double>(test::BestWindow(totals, ranks, slots).largest_load()) / test::BestWindow::unit;
        const double reached = largest_load(totals, fit_window_row(totals, {}, ranks, slots, {}, 5).row, ranks);
        INFO("round " << round << ": " << experts << " experts, " << ranks << " ranks x " << slots << " slots");
        REQUIRE(reached >= optimum * (1 - 1e-12));
        ++problems;
        exact += reached <= optimum * (1 + 1e-9) ? 1 : 0;
        worst = std::max(worst, reached / optimum);
    }
    INFO(exact << " of " << problems << " exact, worst ratio " << worst);
    CHECK(exact >= 0.97 * problems);
    CHECK(worst < 1.05);
}

TEST_CASE("where slots predict each other the window objective is a step fit evened out, else the window fit alone") {
    Random random(31);
    FitProblem problem;
    problem.geometry = {4, 48, 8, 8};
    problem.layers = test::topic_layers(random, 4, 24, 48);
    problem.objective = Objective::window;
    const FitResult fitted = fit_window(problem);
    CHECK(fitted.notes.size() == 1);
    int better = 0;
    for (int layer = 0; layer < 4; ++layer) {
        const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
        const auto totals = counts.expert_totals();
        const WindowRow alone = fit_window_layer(problem, layer, totals);
        const auto row = fitted.layout.row(layer);
        const double step = test::judged_step(counts, row, 8), alone_step = test::judged_step(counts, alone.row, 8);
        CHECK(step <= alone_step);
        better += step < alone_step ? 1 : 0;
        double total = 0;
        for (const std::int64_t count : totals) total += static_cast<double>(count);
        CHECK(largest_load(totals, row, 8) <= total / 8 * alone.bound * (1 + 1e-3));
    }
    CHECK(better >= 2);
    for (LayerCounts& counts : problem.layers) {  // the same popularity in every slot, and counting noise
        for (std::size_t i = 0; i < counts.values.size(); ++i) {
            counts.values[i] = 20 + static_cast<std::int64_t>(i % 48) + random.below(9);
        }
    }
    const FitResult noise = fit_window(problem);
    CHECK(noise.notes.empty());
    for (int layer = 0; layer < 4; ++layer) {
        const auto totals = problem.layers[static_cast<std::size_t>(layer)].expert_totals();
        CHECK(std::ranges::equal(noise.layout.row(layer), fit_window_layer(problem, layer, totals).row));
    }
}
