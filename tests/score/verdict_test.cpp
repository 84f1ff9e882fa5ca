#include "score/verdict.hpp"

#include <catch2/catch.hpp>

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

// Scores of layers with a mean load of 100 in every record slot and the given largest loads, [layer][slot].
LayoutScore score_of(const std::vector<std::vector<double>>& max) {
    LayoutScore score;
    score.steps.layers = static_cast<int>(max.size());
    score.steps.slots = static_cast<int>(max.front().size());
    for (const auto& layer : max) {
        double sum = 0;
        for (const double value : layer) {
            sum += value;
            score.steps.max.push_back(value);
            score.steps.mean.push_back(value == 0 ? 0 : 100);
        }
        if (sum == 0) {
            score.layers.emplace_back();
        } else {
            score.layers.emplace_back(LayerBalance{sum / (100.0 * static_cast<double>(layer.size())), 1.0, 0});
        }
    }
    return score;
}

Verdict verdict_of(const LayoutScore& current, const LayoutScore& proposed, int filled = 8, bool held_out = true) {
    return judge({filled, held_out, "trivial", &current, &proposed, 1});
}

LayoutScore constant(double max) {
    return score_of({{max, max, max, max}});
}

}  // namespace

TEST_CASE("a steady gain of a third is worth a trial") {
    const Verdict verdict = verdict_of(constant(150), constant(100));
    CHECK(verdict.decision == Decision::recommend_trial);
    CHECK(*verdict.gain == Approx(1.0 / 3));
    CHECK(*verdict.gain_spread == Approx(0).margin(1e-12));
    CHECK(verdict.worse_layers.empty());
    CHECK(verdict.reasons.size() == 1);
}

TEST_CASE("a gain under 2 % is not worth it now, one just above is") {
    CHECK(verdict_of(constant(100), constant(98.1)).decision == Decision::not_now);
    CHECK(verdict_of(constant(100), constant(97.9)).decision == Decision::recommend_trial);
}

TEST_CASE("seven non-zero record slots are too few, eight are enough") {
    const Verdict verdict = verdict_of(constant(150), constant(100), 7);
    CHECK(verdict.decision == Decision::insufficient_evidence);
    CHECK_THAT(verdict.reasons.front(), Contains("non-zero record slots: 7"));
    CHECK_FALSE(verdict.gain_spread);
    CHECK(verdict_of(constant(150), constant(100), 8).decision == Decision::recommend_trial);
}

TEST_CASE("what was fitted on is no evidence") {
    CHECK(verdict_of(constant(150), constant(100), 64, false).decision == Decision::insufficient_evidence);
}

TEST_CASE("a gain that depends on which record slots are looked at is not worth it now") {
    // One of four slots gains 40 of 400, the others nothing: 10 % on average. Of the two halves of any split one
    // holds that slot (40 of 240 = 16.7 %) and one does not (0 %), so the spread is 8.3 %: more than half the gain.
    const Verdict verdict = verdict_of(score_of({{100, 140, 100, 100}}), score_of({{100, 100, 100, 100}}));
    CHECK(*verdict.gain == Approx(40.0 / 440));
    CHECK(*verdict.gain_spread == Approx(20.0 / 240));
    CHECK(verdict.decision == Decision::not_now);
    CHECK_THAT(verdict.reasons.front(), Contains("twice its spread"));
}

TEST_CASE("layers that get worse are named, the worst first") {
    const LayoutScore current =
        score_of({{200, 200, 200, 200}, {110, 110, 110, 110}, {0, 0, 0, 0}, {105, 105, 105, 105}});
    const LayoutScore proposed =
        score_of({{110, 110, 110, 110}, {111, 111, 111, 111}, {0, 0, 0, 0}, {120, 120, 120, 120}});
    const Verdict verdict = verdict_of(current, proposed);
    CHECK(verdict.decision == Decision::recommend_trial);
    CHECK(verdict.worse_layers == std::vector{3, 1});
    CHECK_THAT(verdict.reasons.back(), Contains("2 of 3 layers get worse: 3 (1.0500 -> 1.2000), 1 (1.1000 -> 1.1100)"));
}

TEST_CASE("a worse layout is not worth a trial, however steady") {
    const Verdict verdict = verdict_of(constant(100), constant(120));
    CHECK(verdict.decision == Decision::not_now);
    CHECK(*verdict.gain == Approx(-0.2));
}

TEST_CASE("the verdict repeats for the same seed") {
    const LayoutScore current = score_of({{150, 130, 170, 120, 110, 190}}),
                      proposed = score_of({{120, 125, 130, 100, 105, 130}});
    CHECK(*verdict_of(current, proposed).gain_spread == *verdict_of(current, proposed).gain_spread);
}

TEST_CASE("no counts in the scored record slots are no evidence") {
    const Verdict verdict = verdict_of(score_of({{0, 0}}), score_of({{0, 0}}));
    CHECK(verdict.decision == Decision::insufficient_evidence);
    CHECK_FALSE(verdict.gain);
}
