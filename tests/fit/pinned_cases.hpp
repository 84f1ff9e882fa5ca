// Fits whose bytes are pinned: every policy, objective, effort and kind of dispatch on ordinary and odd shapes. Their
// lines stand in pinned_fits.txt, which pinned_fits_test.cpp holds against this build and tests/portability against
// another processor.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "dispatch/model.hpp"
#include "fit/dispatch_fit.hpp"
#include "fit/problem.hpp"
#include "score/balance.hpp"

namespace eplb::test {

// Topics shared by all layers, in integers; every seventh record slot of the last layer is empty.
inline std::vector<LayerCounts> pinned_topics(int layers, int slots, int experts) {
    constexpr std::uint32_t topics = 5;
    Random random(20261129);
    std::vector<std::uint32_t> mix;
    for (int t = 0; t < slots; ++t) {
        for (std::uint32_t k = 0; k < topics; ++k) mix.push_back(random.below(3) == 0 ? 1 + random.below(64) : 1);
    }
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        std::vector<std::uint32_t> strength;
        for (int e = 0; e < experts * static_cast<int>(topics); ++e) {
            strength.push_back(random.below(14) == 0 ? 100 + random.below(900) : 10 + random.below(60));
        }
        LayerCounts counts{slots, experts, {}};
        for (int t = 0; t < slots; ++t) {
            for (int e = 0; e < experts; ++e) {
                std::int64_t count = random.below(200);
                for (std::uint32_t k = 0; k < topics; ++k) {
                    count += std::int64_t{mix[static_cast<std::size_t>(t) * topics + k]} *
                             strength[static_cast<std::size_t>(e) * topics + k];
                }
                counts.values.push_back(layer == layers - 1 && t % 7 == 3 ? 0 : count);
            }
        }
        result.push_back(std::move(counts));
    }
    return result;
}

// Popularity of each expert times a number that comes once; nothing that comes back but the popularity.
inline std::vector<LayerCounts> pinned_noise(int layers, int slots, int experts) {
    Random random(20261130);
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        LayerCounts counts{slots, experts, {}};
        std::vector<std::uint32_t> popularity;
        for (int e = 0; e < experts; ++e) popularity.push_back(1 + random.below(50) * random.below(50));
        for (int t = 0; t < slots; ++t) {
            for (const std::uint32_t p : popularity) counts.values.push_back(p * (70 + random.below(60)));
        }
        result.push_back(std::move(counts));
    }
    return result;
}

// Few counts, most of them zero, and a layer without any.
inline std::vector<LayerCounts> pinned_sparse(int layers, int slots, int experts) {
    Random random(20261131);
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        LayerCounts counts{slots, experts, {}};
        for (int i = 0; i < slots * experts; ++i) {
            counts.values.push_back(layer != 1 && random.below(3) == 0 ? random.below(9) : 0);
        }
        result.push_back(std::move(counts));
    }
    return result;
}

// What a fit gave, with figures by the judge under the dispatch that it was fitted for.
struct PinnedFit {
    std::uint64_t layout = 0;         // hash of the rows, and of the table where there is one
    std::optional<GuardFacts> guard;  // of the step objective
    double step = 0, window = 0;      // mean over the layers with counts
};

struct PinnedCase {
    std::string name;
    Objective objective = Objective::step;
    std::function<PinnedFit()> fit;
};

class Hash {  // FNV-1a on 32-bit words
  public:
    void add(std::uint32_t word) { value_ = (value_ ^ word) * 0x100000001b3u; }
    void add(double number) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &number, sizeof bits);
        add(static_cast<std::uint32_t>(bits));
        add(static_cast<std::uint32_t>(bits >> 32));
    }
    std::uint64_t value() const { return value_; }

  private:
    std::uint64_t value_ = 0xcbf29ce484222325u;
};

inline PinnedFit judged(const FitProblem& problem, const FitResult& result, const ReplicaShares& shares,
                        const DispatchTable* table) {
    PinnedFit pinned;
    pinned.guard = result.guard;
    Hash hash;
    int counted = 0;
    const Geometry& geometry = problem.geometry;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const auto row = result.layout.row(layer);
        for (const ExpertId expert : row) hash.add(static_cast<std::uint32_t>(expert.value));
        for (int rank = 0; table != nullptr && rank < geometry.ranks; ++rank) {
            for (const SlotId slot : table->row(rank, layer)) hash.add(static_cast<std::uint32_t>(slot.value));
        }
        const auto scored =
            balance(problem.layers[static_cast<std::size_t>(layer)], row, shares.row(layer), geometry.ranks);
        if (!scored) continue;
        pinned.step += scored->step;
        pinned.window += scored->window;
        ++counted;
    }
    pinned.layout = hash.value();
    pinned.step /= counted;
    pinned.window /= counted;
    return pinned;
}

inline std::vector<PinnedCase> pinned_cases() {
    struct Shape {
        const char* counts;
        int layers, slots, experts, ranks, slots_per_rank;
    };
    const auto problem_of = [](const Shape& shape, Objective objective, Effort effort) {
        const std::string kind = shape.counts;
        FitProblem problem;
        problem.geometry = {shape.layers, shape.experts, shape.ranks, shape.slots_per_rank};
        problem.layers = (kind == "topics"  ? pinned_topics
                          : kind == "noise" ? pinned_noise
                                            : pinned_sparse)(shape.layers, shape.slots, shape.experts);
        problem.objective = objective;
        problem.effort = effort;
        problem.seed = 7;
        return problem;
    };
    const auto name_of = [](const Shape& shape, std::string_view what, Objective objective) {
        return fmt::format("{}x{}-{}-{}:{}-{}", shape.ranks, shape.slots_per_rank, shape.experts, shape.counts, what,
                           objective == Objective::step ? "step" : "window");
    };
    const DispatchModel& even = find_dispatch_model("even");
    std::vector<PinnedCase> cases;
    const auto add_policy = [&](const Shape& shape, const FitPolicy& policy, Objective objective, Effort effort,
                                std::string_view suffix) {
        cases.push_back(
            {name_of(shape, fmt::format("{}{}", policy.name, suffix), objective), objective, [=, &policy, &even] {
                 const FitProblem problem = problem_of(shape, objective, effort);
                 const FitResult result = fit(policy, problem);
                 return judged(problem, result, replica_shares(even, result.layout, {}), nullptr);
             }});
    };
    // Replica moves in the small ones and above 80 record slots; two slots a rank; nothing to choose; one of each.
    const Shape ordinary[] = {{"topics", 3, 12, 64, 8, 9}, {"topics", 2, 40, 48, 16, 4}, {"topics", 2, 2, 20, 6, 4},
                              {"topics", 1, 9, 60, 33, 2}, {"topics", 1, 100, 24, 4, 9}, {"topics", 1, 6, 14, 5, 4},
                              {"noise", 4, 8, 48, 8, 7},   {"sparse", 3, 10, 30, 6, 6}};
    const Shape odd[] = {{"topics", 1, 5, 5, 1, 5},  {"topics", 1, 5, 7, 9, 1},  {"topics", 1, 5, 12, 3, 4},
                         {"topics", 1, 5, 4, 5, 4},  {"topics", 1, 1, 16, 5, 4}, {"topics", 1, 5, 9, 5, 2},
                         {"topics", 1, 17, 3, 2, 2}, {"noise", 1, 3, 30, 16, 2}};
    for (const Objective objective : {Objective::step, Objective::window}) {
        for (const Shape& shape : ordinary) {
            for (const auto& [effort, suffix] : {std::pair{Effort::fast, "-fast"}, std::pair{Effort::standard, ""},
                                                 std::pair{Effort::thorough, "-thorough"}}) {
                add_policy(shape, find_fit_policy("search"), objective, effort, suffix);
            }
        }
        for (const Shape& shape : odd) {
            add_policy(shape, find_fit_policy("search"), objective, Effort::standard, "");
        }
        for (const FitPolicy& policy : fit_policies()) {
            if (policy.obeys_objective || objective == Objective::step) continue;
            for (const Shape& shape : {ordinary[0], ordinary[3], ordinary[7], odd[5]}) {
                add_policy(shape, policy, objective, Effort::standard, "");
            }
        }
        const Shape served{"topics", 2, 8, 30, 8, 5};
        DispatchContext context;
        context.nodes = 2;
        for (const DispatchModel& model : dispatch_models()) {
            if (model.targets == nullptr || is_even(model)) continue;
            cases.push_back({name_of(served, fmt::format("for-{}", model.name), objective), objective, [=, &model] {
                                 const FitProblem problem = problem_of(served, objective, Effort::fast);
                                 const FitResult result = fit_for_rule(problem, model, context);
                                 return judged(problem, result, replica_shares(model, result.layout, context), nullptr);
                             }});
        }
        for (const Shape& shape : {served, odd[5]}) {
            cases.push_back({name_of(shape, "balanced-table", objective), objective, [=] {
                                 const FitProblem problem = problem_of(shape, objective, Effort::fast);
                                 DispatchContext used;
                                 used.nodes = shape.ranks % 2 == 0 ? 2 : 1;
                                 const BalancedFit fitted = fit_balanced(problem, used);
                                 used.table = &fitted.table;
                                 const auto shares =
                                     replica_shares(find_dispatch_model("table"), fitted.fit.layout, used);
                                 return judged(problem, fitted.fit, shares, &fitted.table);
                             }});
        }
    }
    return cases;
}

// Name, hash of layout and table, hash of what the guard saw, step and window balancedness by the judge, R2.
inline std::string line_of(const PinnedCase& pinned, const PinnedFit& fitted) {
    std::string guard = "-", r2 = "-";
    if (fitted.guard) {
        Hash hash;
        const GuardFacts& facts = *fitted.guard;
        for (const double number :
             {facts.predictability.value_or(-1), facts.noise_level, facts.replica_share, facts.mean_shrink,
              facts.expected_holdout.value_or(-1), facts.expected_gain.value_or(-9), facts.expected_gain_error}) {
            hash.add(number);
        }
        for (const int number : {facts.replica_quarters, facts.step_layers, facts.window_layers}) {
            hash.add(static_cast<std::uint32_t>(number));
        }
        guard = fmt::format("{:016x}", hash.value());
        if (facts.predictability) r2 = fmt::format("{:.4f}", *facts.predictability);
    }
    return fmt::format("{} {:016x} {} {:.6f} {:.6f} {}", pinned.name, fitted.layout, guard, fitted.step, fitted.window,
                       r2);
}

}  // namespace eplb::test
