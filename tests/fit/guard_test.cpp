#include "fit/guard.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "fit/cross_validation.hpp"
#include "fit/predictability.hpp"
#include "fit/replica_exponent.hpp"
#include "fit/shrink.hpp"
#include "fit/slot_weights.hpp"
#include "fit/solve.hpp"
#include "fit/step.hpp"
#include "fit/step_counts.hpp"

using namespace eplb;

namespace {

// Every slot is drawn on its own: popularity times a number that comes once.
std::vector<LayerCounts> independent_layers(Random& random, int layers, int slots, int experts) {
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        LayerCounts counts{slots, experts, {}};
        std::vector<double> popularity;
        for (int e = 0; e < experts; ++e) popularity.push_back(500 + 1000 * random.unit());
        for (int slot = 0; slot < slots; ++slot) {
            for (const double p : popularity) {
                counts.values.push_back(static_cast<std::int64_t>(p * (0.7 + 0.6 * random.unit())));
            }
        }
        result.push_back(std::move(counts));
    }
    return result;
}

FitProblem problem_of(std::vector<LayerCounts> layers, int ranks, int slots_per_rank) {
    FitProblem problem;
    problem.geometry = {static_cast<int>(layers.size()), layers.front().experts, ranks, slots_per_rank};
    problem.layers = std::move(layers);
    problem.objective = Objective::step;
    problem.effort = Effort::fast;
    return problem;
}

}  // namespace

TEST_CASE("Cholesky solves a system that was solved by hand and refuses one that is not positive definite") {
    // 4x + 2y = 10, 2x + 3y = 9: x = 1.5, y = 2.
    const auto x = solve_positive_definite(std::vector<double>{4, 2, 2, 3}, std::vector<double>{10, 9});
    REQUIRE(x.size() == 2);
    CHECK(x[0] == Approx(1.5));
    CHECK(x[1] == Approx(2));
    CHECK(solve_positive_definite(std::vector<double>{1, 2, 2, 4}, std::vector<double>{1, 1}).empty());
    CHECK(solve_positive_definite(std::vector<double>{-1}, std::vector<double>{1}).empty());
}

TEST_CASE("dot products of every length agree with a plain sum") {
    std::vector<double> a, b;
    for (int i = 0; i < 37; ++i) {
        a.push_back(i - 5);
        b.push_back(3 - i % 7);
    }
    for (std::size_t n = 0; n <= a.size(); ++n) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
        CHECK(dot(a.data(), b.data(), n) == sum);  // small whole numbers: exact in any order
    }
}

TEST_CASE("slots that mix two topics predict each other, independent ones do not") {
    Random random(1);
    for (const int slots : {4, 12, 70}) {
        CHECK(predictability(test::topic_layers(random, 6, slots, 48), 4, 1)->r2 > 0.8);
        CHECK(predictability(independent_layers(random, 6, slots, 48), 4, 1)->r2 < 0.02 + 1.5 * 32 / (6 * 48.0));
    }
}

TEST_CASE("predictability is unknown below three slots with counts, and zero where nothing varies") {
    Random random(2);
    auto layers = independent_layers(random, 2, 3, 16);
    CHECK(predictability(layers, 4, 1).has_value());
    for (LayerCounts& counts : layers) {
        for (int e = 0; e < 16; ++e) counts.values[static_cast<std::size_t>(16 + e)] = 0;
    }
    CHECK_FALSE(predictability(layers, 4, 1).has_value());
    CHECK(predictability(std::vector<LayerCounts>{{3, 2, {5, 7, 10, 14, 15, 21}}}, 2, 1)->r2 == Approx(0).margin(1e-9));
    CHECK_FALSE(predictability({}, 2, 1).has_value());
}

TEST_CASE("noise gets the window fit and topics the step fit") {
    Random random(3);
    const FitProblem noise = problem_of(independent_layers(random, 6, 8, 48), 8, 7);
    const FitResult guarded = fit_step(noise);
    CHECK(guarded.guard->window_fit);
    CHECK(guarded.guard->step_layers == 0);
    FitProblem window = noise;
    window.objective = Objective::window;
    CHECK(guarded.layout == fit(find_fit_policy("search"), window).layout);

    const FitResult fitted = fit_step(problem_of(test::topic_layers(random, 6, 8, 48), 8, 7));
    CHECK_FALSE(fitted.guard->window_fit);
    CHECK(fitted.guard->step_layers == 6);
    CHECK(fitted.guard->predictability.value() > fitted.guard->noise_level);
}

TEST_CASE("with two slots a rank weak signal is not enough") {
    Random random(4);
    std::vector<LayerCounts> layers = test::topic_layers(random, 6, 8, 48);
    for (LayerCounts& counts : layers) {
        for (auto& count : counts.values)
            count = static_cast<std::int64_t>(static_cast<double>(count) * (0.4 + 1.2 * random.unit()));
    }
    const auto wide = plan_step_fit(problem_of(layers, 10, 5)), narrow = plan_step_fit(problem_of(layers, 25, 2));
    REQUIRE(wide.facts.predictability.value() > wide.facts.noise_level);
    REQUIRE(wide.facts.predictability.value() < 0.5);
    CHECK_FALSE(wide.facts.window_fit);
    CHECK(narrow.facts.window_fit);
}

TEST_CASE("one record slot gets the window fit, which is the step fit there") {
    Random random(5);
    const FitResult result = fit_step(problem_of(independent_layers(random, 2, 1, 24), 6, 5));
    CHECK(result.guard->window_fit);
    CHECK_FALSE(result.guard->predictability.has_value());
    CHECK_FALSE(result.guard->expected_holdout.has_value());
    CHECK(result.notes.front().find("one record slot") != std::string::npos);
}

TEST_CASE("two record slots are fitted when they differ by eight times what counting noise gives") {
    // Expert 0 has 100 + d of 400 in one slot and 100 - d in the other, expert 1 the reverse: the shares differ by
    // d/200 twice, d^2 / 40,000 * 2 against expected 2 * (1/400) * 1 for four experts of equal popularity: d^2 / 100.
    const auto two = [](std::int64_t d) {
        return std::vector<LayerCounts>{{2, 4, {100 + d, 100 - d, 100, 100, 100 - d, 100 + d, 100, 100}}};
    };
    CHECK(difference_of_two(two(20), 2, 1).value() == Approx(4));
    CHECK(difference_of_two(two(30), 2, 1).value() == Approx(9));
    CHECK(plan_step_fit(problem_of(two(28), 2, 3)).facts.window_fit);        // 7.84
    CHECK_FALSE(plan_step_fit(problem_of(two(29), 2, 3)).facts.window_fit);  // 8.41
    auto three = two(29);
    three[0].slots = 3;
    three[0].values.insert(three[0].values.end(), {1, 2, 3, 4});
    CHECK_FALSE(difference_of_two(three, 2, 1).has_value());
}

TEST_CASE("where slots are few their R2 must be higher: 0.9 / T^2") {
    // So many layers that chance is next to nothing.
    Random random(15);
    const auto level = [&](int slots) {
        return plan_step_fit(problem_of(independent_layers(random, 400, slots, 24), 6, 5)).facts.noise_level;
    };
    CHECK(level(3) == Approx(0.1).margin(0.001));
    CHECK(level(5) == Approx(0.036).margin(0.002));
    CHECK(level(9) == Approx(0.02).margin(0.002));
}

TEST_CASE("copies of a record slot are one piece of evidence and leave the figures of a layout as they are") {
    Random random(16);
    const auto layers = test::topic_layers(random, 3, 6, 30);
    FitProblem problem = problem_of(layers, 6, 6);
    CHECK_FALSE(without_copies(problem).has_value());
    for (LayerCounts& counts : problem.layers) {  // slots 1 and 4 twice more
        for (const int slot : {1, 4, 4, 1}) {
            const auto row = counts.row(slot);
            const std::vector<std::int64_t> copy(row.begin(), row.end());
            counts.values.insert(counts.values.end(), copy.begin(), copy.end());
            ++counts.slots;
        }
    }
    const auto merged = without_copies(problem);
    REQUIRE(merged.has_value());
    CHECK(merged->layers[1].slots == 6);
    const auto row = test::random_row(random, 30, 6, 6);
    CHECK(test::judged_step(merged->layers[1], row, 6) == Approx(test::judged_step(problem.layers[1], row, 6)));
    CHECK(predictability(problem.layers, 6, 1)->r2 == predictability(layers, 6, 1)->r2);
    CHECK(plan_step_fit(problem).facts.record_slots == 6);

    FitProblem same = problem_of(independent_layers(random, 2, 1, 24), 6, 5);
    for (LayerCounts& counts : same.layers) {
        const auto once = counts.values;
        for (int copy = 1; copy < 64; ++copy) counts.values.insert(counts.values.end(), once.begin(), once.end());
        counts.slots = 64;
    }
    CHECK(plan_step_fit(same).facts.record_slots == 1);
    CHECK(fit_step(same).guard->window_fit);
}

TEST_CASE("few record slots count alike whatever their sizes, some by the root of it, many by it") {
    for (const int slots : {7, 8, 31, 32}) {
        LayerCounts counts{slots, 2, {}};
        for (int slot = 0; slot < slots; ++slot) {
            counts.values.push_back(slot == 0 ? 300 : 3);
            counts.values.push_back(slot == 0 ? 100 : 1);
        }
        const auto [weighed, inverse_total] = weigh_slots(counts);
        const double ratio =
            static_cast<double>(weighed.slot_total(0)) / static_cast<double>(weighed.slot_total(slots - 1));
        CHECK(ratio == Approx(slots <= 7 ? 1 : slots <= 31 ? 10 : 100));
        CHECK(static_cast<double>(weighed.row(1)[0]) == Approx(3.0 * static_cast<double>(weighed.row(1)[1])));
        const double others = slots - 1, weight = ratio;  // of the large slot; the others weigh 1
        CHECK(inverse_total == Approx((weight / 400 + others / 4) / (weight + others)));
    }
    CHECK(weigh_slots({2, 2, {0, 0, 5, 7}}).counts.values == std::vector<std::int64_t>{0, 0, 5, 7});
}

namespace {

// Multinomial noise: `tokens` of one popularity in every slot, which is all that comes back. A layer misses a slot with
// probability `missing`.
std::vector<LayerCounts> noise_layers(Random& random, int layers, int experts, const std::vector<int>& tokens,
                                      double missing) {
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        std::vector<double> sums;
        for (int e = 0; e < experts; ++e) {
            const double u = random.unit();
            sums.push_back((sums.empty() ? 0 : sums.back()) + 1 / (0.05 + u * u));
        }
        LayerCounts counts{static_cast<int>(tokens.size()), experts, {}};
        counts.values.resize(tokens.size() * static_cast<std::size_t>(experts));
        for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
            if (random.unit() < missing) continue;
            for (int i = 0; i < tokens[slot]; ++i) {
                const auto at = std::upper_bound(sums.begin(), sums.end(), random.unit() * sums.back()) - sums.begin();
                ++counts.values[slot * static_cast<std::size_t>(experts) + static_cast<std::size_t>(at)];
            }
        }
        result.push_back(std::move(counts));
    }
    return result;
}

}  // namespace

TEST_CASE("noise of any slot sizes, rows missing or not, gets the window fit in at least 95 of 100 files") {
    Random random(17);
    const int files = 100;
    int window = 0;
    for (int file = 0; file < files; ++file) {
        std::vector<int> tokens(3 + random.below(file % 2 == 0 ? 6 : 40));
        for (int& size : tokens) {  // equal, or over two orders of magnitude
            const double u = random.unit();
            size = file % 4 == 0 ? 600 : 20 + static_cast<int>(3000 * u * u * u);
        }
        const double missing = file % 3 == 0 ? 0.3 : 0;
        const auto layers = noise_layers(random, 6, 48, tokens, missing);
        window += plan_step_fit(problem_of(layers, 8, 7)).facts.window_fit ? 1 : 0;
    }
    CHECK(window >= 95);
}

TEST_CASE("bursts that come once ask for replica counts nearer the totals than peaks that come back") {
    // Six heavy experts that breathe in step with each other. In `back` every other expert may burst again and again,
    // in `once` each of twelve bursts in one slot of twelve.
    LayerCounts back{12, 24, {}}, once{12, 24, {}};
    for (int slot = 0; slot < 12; ++slot) {
        for (int e = 0; e < 24; ++e) {
            const std::int64_t steady = e < 6 ? (slot / 2 % 2 == 0 ? 200 : 400) : 20;
            back.values.push_back(e == 6 + slot % 3 ? 600 : steady);
            once.values.push_back(e == 6 + slot ? 600 : steady);
        }
    }
    CHECK(choose_replica_quarters(std::vector<LayerCounts>{back}, 6, 5) >= default_replica_quarters);
    CHECK(choose_replica_quarters(std::vector<LayerCounts>{once}, 6, 5) < default_replica_quarters);
    CHECK(choose_replica_quarters(std::vector<LayerCounts>{{2, 2, {1, 2, 3, 4}}}, 2, 2) == default_replica_quarters);
}

TEST_CASE("shrinking keeps the mean and scales the deviations") {
    const LayerCounts counts{2, 2, {30, 10, 10, 30}};
    SlotShares shares = slot_shares(counts, 2);
    shrink(shares, 0.5);
    CHECK(shares.at(0, 0) == Approx(1.25));  // from 1.5, mean 1
    CHECK(shares.at(1, 0) == Approx(0.75));
    const SlotShares wider = with_mean_slot(slot_shares(counts, 2), 0.1);
    CHECK(wider.at(0, 2) == Approx(1));
    CHECK(wider.weight(2) == Approx(0.1));
    CHECK(wider.at(0, 1) == Approx(0.5));
}

TEST_CASE("steady slots are not shrunk, wild ones are, and prediction takes it back") {
    Random random(6);
    const std::vector<int> replicas(48, 1);
    LayerCounts wild{6, 48, {}};
    for (int i = 0; i < 6 * 48; ++i) wild.values.push_back(random.below(12) == 0 ? 400 : 4);
    const auto steady = independent_layers(random, 1, 6, 48).front();
    const auto factor = [&](const LayerCounts& counts, double r2) {
        return shrink_factor(slot_shares(counts, 8), replicas, 8, 8.5, r2,
                             1.0 / static_cast<double>(counts.slot_total(0)));
    };
    CHECK(factor(steady, 0) == 1);
    CHECK(factor(wild, 0) < 1);
    CHECK(factor(wild, 0) > 0);
    CHECK(factor(wild, 0.99) == 1);
}

TEST_CASE("the shrink factor is that of its definition, whatever part of a vector the record slots fill") {
    Random random(12);
    const int ranks = 4, experts = 10;
    const double sharpness = 40, r2 = 0.2, inverse_total = 1e-3;
    for (const int slots : {1, 2, 7, 8, 11, 17}) {
        const auto counts = test::bursty_counts(random, slots, experts);
        std::vector<int> replicas(experts, 1);
        replicas[3] = 3;
        std::vector<double> weights;
        double total = 0, squares = 0;
        for (int t = 0; t < slots; ++t) total += static_cast<double>(counts.slot_total(t));
        for (int t = 0; t < slots; ++t) weights.push_back(static_cast<double>(counts.slot_total(t)) / total);
        for (const double weight : weights) squares += weight * weight;
        const double freedom = 1 / squares - 1;
        std::vector<double> means(experts), variances(experts);
        for (std::size_t e = 0; e < means.size(); ++e) {
            const auto share = [&](int t) {
                return static_cast<double>(counts.row(t)[e]) * ranks / static_cast<double>(counts.slot_total(t));
            };
            for (int t = 0; t < slots; ++t) means[e] += weights[static_cast<std::size_t>(t)] * share(t);
            for (int t = 0; t < slots; ++t) {
                variances[e] += weights[static_cast<std::size_t>(t)] * std::pow(share(t) - means[e], 2);
            }
            variances[e] = slots > 1 ? variances[e] / (1 - squares) : 0;
        }
        double excess = 0, mean_squares = 0, rank_variance = 0;
        for (std::size_t e = 0; e < means.size(); ++e) {
            excess += variances[e] - means[e] * ranks * inverse_total;
            mean_squares += means[e] * means[e];
        }
        const double spread = (freedom * std::max(0.0, excess / mean_squares) + 0.5 * 0.3) / (freedom + 0.5);
        for (std::size_t e = 0; e < means.size(); ++e) {
            const double prior = means[e] * ranks * inverse_total + spread * means[e] * means[e];
            rank_variance += (4 * prior + freedom * variances[e]) / (4 + freedom) / replicas[e] / ranks;
        }
        const double expected = 2 * std::sqrt(2 * std::log(ranks)) / (sharpness * std::sqrt((1 - r2) * rank_variance));
        REQUIRE(expected < 1);
        CHECK(shrink_factor(slot_shares(counts, ranks), replicas, ranks, sharpness, r2, inverse_total) ==
              Approx(expected).epsilon(1e-5));
    }
}

TEST_CASE("the expected holdout is near what slots drawn in the same way score") {
    Random random(7);
    const int experts = 48, slots = 24;
    auto layers = test::topic_layers(random, 12, 2 * slots, experts);
    std::vector<LayerCounts> held;
    for (LayerCounts& counts : layers) {
        held.push_back({slots, experts, {counts.values.begin() + slots * experts, counts.values.end()}});
        counts.values.resize(static_cast<std::size_t>(slots * experts));
        counts.slots = slots;
    }
    const FitProblem problem = problem_of(layers, 8, 7);
    const FitResult result = fit_step(problem);
    double measured = 0;
    for (std::size_t layer = 0; layer < held.size(); ++layer) {
        measured += test::judged_step(held[layer], result.layout.row(static_cast<int>(layer)), 8) / 12;
    }
    CHECK(result.guard->expected_holdout.value() == Approx(measured).margin(0.01));
    CHECK(result.guard->expected_gain.value() > 0);
}

TEST_CASE("the guard's facts do not depend on the number of threads") {
    Random random(8);
    FitProblem problem = problem_of(test::topic_layers(random, 5, 9, 30), 6, 6);
    const FitResult one = fit_step(problem);
    problem.threads = 3;
    const FitResult three = fit_step(problem);
    CHECK(one.layout == three.layout);
    CHECK(one.guard->predictability == three.guard->predictability);
    CHECK(one.guard->expected_holdout == three.guard->expected_holdout);
    CHECK(one.notes == three.notes);
}
