#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <string>

#include "core/error.hpp"
#include "fit/problem.hpp"
#include "fit/random_counts.hpp"

using namespace eplb;

namespace {

FitProblem random_problem(Random& random, const Geometry& shape, int layers, int slots) {
    FitProblem problem;
    problem.geometry = shape;
    problem.geometry.layers = layers;
    for (int layer = 0; layer < layers; ++layer) {
        LayerCounts counts{slots, shape.experts, {}};
        for (int slot = 0; slot < slots; ++slot) {
            auto row = test::random_weights(random, shape.experts);
            // The total of a layer must stay below 2^63.
            const std::int64_t most = std::numeric_limits<std::int64_t>::max() / slots / shape.experts;
            for (std::int64_t& count : row) count = count > most ? most - count % 3 : count / slots;
            if (layer % 5 == 4) row.assign(row.size(), 0);
            counts.values.insert(counts.values.end(), row.begin(), row.end());
        }
        problem.layers.push_back(std::move(counts));
    }
    problem.seed = random.next();
    problem.effort = Effort::fast;
    return problem;
}

// Written on purpose without the library: every expert, no expert twice on a rank.
bool legal(const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    const auto slots_per_rank = static_cast<std::size_t>(geometry.slots_per_rank);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const auto row = layout.row(layer);
        std::vector<bool> present(static_cast<std::size_t>(geometry.experts));
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            present[static_cast<std::size_t>(row[slot].value)] = true;
            for (std::size_t other = slot / slots_per_rank * slots_per_rank; other < slot; ++other) {
                if (row[other] == row[slot]) return false;
            }
        }
        if (std::find(present.begin(), present.end(), false) != present.end()) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("policy names are unique and unknown ones are refused with the list") {
    for (const FitPolicy& policy : fit_policies()) CHECK(&find_fit_policy(policy.name) == &policy);
    try {
        find_fit_policy("greedy");
        FAIL("an unknown policy was accepted");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::usage);
        for (const FitPolicy& policy : fit_policies()) CHECK(error.hint().find(policy.name) != std::string::npos);
    }
}

TEST_CASE("every policy gives a legal layout for 4000 random shapes and kinds of load") {
    Random random(7);
    for (int round = 0; round < 4000; ++round) {
        const Geometry shape = test::random_geometry(random, 12, 8);
        const FitProblem problem = random_problem(random, shape, 1 + static_cast<int>(random.below(2)) * 4,
                                                  1 + static_cast<int>(random.below(3)));
        for (const FitPolicy& policy : fit_policies()) {
            INFO("round " << round << ", " << policy.name << ": " << describe(problem.geometry));
            REQUIRE(legal(fit(policy, problem).layout));
        }
    }
}

TEST_CASE("layers without counts get the trivial row from every policy that looks at counts") {
    FitProblem problem;
    problem.geometry = {2, 5, 3, 2};
    problem.layers = {{1, 5, {0, 0, 0, 0, 0}}, {1, 5, {9, 1, 1, 1, 1}}};
    const Layout trivial = trivial_layout(problem.geometry);
    for (const FitPolicy& policy : fit_policies()) {
        if (policy.name == "random") continue;
        INFO(policy.name);
        const Layout layout = fit(policy, problem).layout;
        CHECK(std::ranges::equal(layout.row(0), trivial.row(0)));
        CHECK(std::ranges::equal(layout.row(1), trivial.row(1)) == (policy.name == "trivial"));
    }
}

TEST_CASE("no policy's layout depends on the number of threads") {
    Random random(8);
    FitProblem problem = random_problem(random, {1, 64, 8, 9}, 23, 4);
    for (const FitPolicy& policy : fit_policies()) {
        INFO(policy.name);
        problem.threads = 1;
        const Layout layout = fit(policy, problem).layout;
        for (const int threads : {2, 7}) {
            problem.threads = threads;
            CHECK(fit(policy, problem).layout == layout);
        }
    }
}

TEST_CASE("of the baselines only the random one depends on the seed") {
    Random random(9);
    FitProblem problem = random_problem(random, {1, 30, 4, 9}, 3, 2);
    for (const FitPolicy& policy : fit_policies()) {
        if (policy.obeys_objective) continue;
        INFO(policy.name);
        problem.seed = 1;
        const Layout layout = fit(policy, problem).layout;
        problem.seed = 2;
        CHECK((fit(policy, problem).layout == layout) == (policy.name != "random"));
    }
}

TEST_CASE("a fit that is asked to stop throws Interrupted") {
    Random random(10);
    FitProblem problem = random_problem(random, {1, 12, 3, 5}, 9, 1);
    int reported = 0;
    problem.progress.report = [&](int done, int, double) { reported = done; };
    problem.progress.stop_requested = [&] { return reported >= 2; };
    CHECK_THROWS_AS(fit(find_fit_policy("search"), problem), Interrupted);
    CHECK(reported == 2);
}

TEST_CASE("an infeasible geometry is refused before anything is fitted") {
    FitProblem problem;
    problem.geometry = {1, 7, 3, 2};
    problem.layers = {{1, 7, {1, 1, 1, 1, 1, 1, 1}}};
    for (const FitPolicy& policy : fit_policies()) CHECK_THROWS_AS(fit(policy, problem), Error);
}

TEST_CASE("a policy that gives an illegal layout is caught") {
    FitProblem problem;
    problem.geometry = {1, 3, 2, 2};
    problem.layers = {{1, 3, {1, 1, 1}}};
    const FitPolicy twice{"twice", "", false, [](const FitProblem& given) {
                              return FitResult{Layout(given.geometry, {{0}, {0}, {1}, {2}}), {}};
                          }};
    const FitPolicy missing{"missing", "", false, [](const FitProblem& given) {
                                return FitResult{Layout(given.geometry, {{0}, {1}, {1}, {0}}), {}};
                            }};
    const FitPolicy good{"good", "", false, [](const FitProblem& given) {
                             return FitResult{Layout(given.geometry, {{0}, {1}, {2}, {0}}), {}};
                         }};
    CHECK_THROWS_AS(fit(twice, problem), Error);
    CHECK_THROWS_AS(fit(missing, problem), Error);
    CHECK_NOTHROW(fit(good, problem));
}
