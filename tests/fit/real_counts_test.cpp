// Fits of counts that servers recorded, from a folder beside the checkout.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <test_paths.hpp>
#include <vector>

#include "core/counts.hpp"
#include "core/record_split.hpp"
#include "counts_io/count_file.hpp"
#include "dispatch/model.hpp"
#include "fit/dispatch_fit.hpp"
#include "fit/layers.hpp"
#include "fit/problem.hpp"
#include "fit/window.hpp"
#include "score/bounds.hpp"
#include "score/layout_score.hpp"

using namespace eplb;

namespace {

// The prefill statistics of DeepSeek-V3 in C-locale order of their names; no record slots when the folder is absent.
Counts sglang_prefill_counts() {
    const std::filesystem::path folder = std::filesystem::path(EPLB_SHARED_DIR) / "data/sglang";
    if (!std::filesystem::exists(folder)) return {};
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    std::vector<Tensor> tensors;
    for (const std::string& path : paths) tensors.push_back(read_count_file(path, {}).tensor);
    return Counts(std::move(tensors));
}

FitProblem problem_of(const Counts& counts, std::span<const int> record_slots, int ranks, int slots_per_rank) {
    FitProblem problem;
    problem.geometry = {counts.layers(), counts.experts(), ranks, slots_per_rank};
    for (int layer = 0; layer < counts.layers(); ++layer) {
        problem.layers.push_back(gather(counts, layer, record_slots));
    }
    problem.threads = 2;
    return problem;
}

}  // namespace

TEST_CASE("the window fit of real prefill counts is certified to 1e-3 in each of the 58 layers", "[realdata]") {
    const Counts counts = sglang_prefill_counts();
    if (counts.record_slots() == 0) {
        WARN("skipped: no folder with real counts");
        return;
    }
    REQUIRE(counts.record_slots() == 8);
    const auto filled = filled_slots(counts.slot_totals());
    for (const Holdout holdout : {Holdout::interleave, Holdout::halves}) {
        for (const Effort effort : {Effort::fast, Effort::standard}) {
            const auto fitted_on = split_record_slots(filled, holdout).fit;
            FitProblem problem = problem_of(counts, fitted_on, 32, 9);
            problem.effort = effort;
            const Layout layout =
                fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
                    std::ranges::copy(fit_window_layer(problem, layer, totals).row, row.begin());
                });
            const auto shares = replica_shares(find_dispatch_model("even"), layout, {});
            const LayoutScore score = score_layout(counts, fitted_on, layout, shares, 1);
            CHECK(score.layers_scored() == 58);
            for (int layer = 0; layer < 61; ++layer) {
                const auto& balance = score.layers[static_cast<std::size_t>(layer)];
                CHECK(balance.has_value() == (layer >= 3));
                if (!balance) continue;
                const auto totals = problem.layers[static_cast<std::size_t>(layer)].expert_totals();
                const double bound = window_lower_bound(totals, 32, 9);
                INFO(name_of(holdout) << ", layer " << layer << ": " << balance->window << ", bound " << bound);
                CHECK(balance->window <= bound * (1 + (effort == Effort::fast ? 1e-3 : 3e-4)) * (1 + 1e-12));
                CHECK(balance->window >= bound * (1 - 1e-12));
            }
        }
    }
}

TEST_CASE("who asks for the window value of real prefill counts gets what a step fit would give on others",
          "[realdata]") {
    const Counts counts = sglang_prefill_counts();
    if (counts.record_slots() == 0) {
        WARN("skipped: no folder with real counts");
        return;
    }
    const auto held_out = [&](const RecordSplit& split, const Layout& layout) {
        const auto shares = replica_shares(find_dispatch_model("even"), layout, {});
        const LayoutScore score = score_layout(counts, split.holdout, layout, shares, 1);
        LayerBalance mean{};
        for (const auto& layer : score.layers) {
            if (!layer) continue;
            mean.step += layer->step / score.layers_scored();
            mean.window += layer->window / score.layers_scored();
        }
        return mean;
    };
    for (const Holdout holdout : {Holdout::interleave, Holdout::halves}) {
        const RecordSplit split = split_record_slots(filled_slots(counts.slot_totals()), holdout);
        FitProblem problem = problem_of(counts, split.fit, 32, 9);
        problem.objective = Objective::window;
        const LayerBalance window = held_out(split, fit(find_fit_policy("search"), problem).layout);
        problem.objective = Objective::step;
        const LayerBalance step = held_out(split, fit(find_fit_policy("search"), problem).layout);
        const LayerBalance alone = held_out(
            split, fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
                std::ranges::copy(fit_window_layer(problem, layer, totals).row, row.begin());
            }));
        INFO(name_of(holdout) << ": " << window.step << " and " << step.step << ", " << window.window << " and "
                              << step.window);
        CHECK(window.step < alone.step - 0.6 * (alone.step - step.step));
        CHECK(window.window < alone.window - 0.6 * (alone.window - step.window));
    }
}

TEST_CASE("fits for SGLang's static dispatch win back what the even split hides on real prefill counts", "[realdata]") {
    const Counts counts = sglang_prefill_counts();
    if (counts.record_slots() == 0) {
        WARN("skipped: no folder with real counts");
        return;
    }
    const RecordSplit split = split_record_slots(filled_slots(counts.slot_totals()), Holdout::interleave);
    FitProblem problem = problem_of(counts, split.fit, 32, 9);
    problem.objective = Objective::step;
    problem.effort = Effort::fast;
    const auto held_out = [&](const Layout& layout, std::string_view model, const DispatchContext& context) {
        const auto shares = replica_shares(find_dispatch_model(model), layout, context);
        const LayoutScore score = score_layout(counts, split.holdout, layout, shares, 2);
        double sum = 0;
        for (const auto& layer : score.layers) sum += layer ? layer->step : 0;
        return sum / score.layers_scored();
    };
    const Layout even_fit = fit(find_fit_policy("search"), problem).layout;
    const double even = held_out(even_fit, "even", {});
    CHECK(even < 1.017);
    // At this effort; layouts without redundancy reach 1.1507, the even fit 1.11 to 1.17 under D.
    const std::map<std::string_view, std::array<double, 3>> aims{{"sglang-a", {1.015, 1.015, 1.015}},
                                                                 {"sglang-b-fill-all", {1.06, 1.02, 1.02}},
                                                                 {"sglang-d-subset", {1.04, 1.025, 1.02}},
                                                                 {"sglang-d-elastic", {1.04, 1.04, 1.04}}};
    for (const auto& [model, aim] : aims) {
        for (std::size_t i = 0; i < 3; ++i) {
            DispatchContext context;
            context.nodes = 1 << i;
            if (!find_dispatch_model(model).needs_nodes && i > 0) continue;
            const Layout fitted = fit_for_rule(problem, find_dispatch_model(model), context).layout;
            INFO(model << " on " << *context.nodes << " nodes");
            CHECK(held_out(fitted, model, context) <= aim[i]);
        }
    }
    for (const int nodes : {1, 2, 4}) {
        DispatchContext context;
        context.nodes = nodes;
        const double believed_even = held_out(even_fit, "sglang-c", context);
        const Layout fitted = fit_for_rule(problem, find_dispatch_model("sglang-c"), context).layout;
        const double dispatched = held_out(fitted, "sglang-c", context);
        INFO(nodes << " nodes: " << believed_even << " as dispatched, " << even << " even, " << dispatched
                   << " fitted");
        if (nodes == 1) {
            CHECK(believed_even > 1.6);
            CHECK(dispatched < 1.06);  // without redundancy nothing is below 1.149
        } else {
            CHECK(believed_even - dispatched > 0.9 * (believed_even - even));
        }
    }
    const BalancedFit balanced = fit_balanced(problem, {});
    DispatchContext context;
    context.table = &balanced.table;
    CHECK(held_out(balanced.fit.layout, "table", context) < even + 0.005);
}
