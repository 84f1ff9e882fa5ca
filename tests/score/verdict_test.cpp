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

Evidence evidence_of(const LayoutScore& proposed, std::vector<Rival> rivals) {
    Evidence evidence;
    evidence.record_slots = evidence.distinct_record_slots = 8;
    evidence.held_out = true;
    evidence.proposed = &proposed;
    evidence.rivals = std::move(rivals);
    evidence.seed = 1;
    return evidence;
}

Verdict verdict_of(const LayoutScore& current, const LayoutScore& proposed, int filled = 8, bool held_out = true) {
    Evidence evidence = evidence_of(proposed, {{Rival::Kind::current, "trivial", &current}});
    evidence.record_slots = evidence.distinct_record_slots = filled;
    evidence.held_out = held_out;
    return judge(evidence);
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

TEST_CASE("copies of one record slot are one observation, on one side of every half split") {
    const LayoutScore current = score_of({{100, 140, 140, 100}}), proposed = score_of({{100, 100, 100, 100}});
    Evidence evidence = evidence_of(proposed, {{Rival::Kind::current, "trivial", &current}});
    evidence.kinds = {0, 1, 1, 0};  // two observations: the halves are one each, gains 80/280 and 0
    CHECK(*judge(evidence).gain_spread == Approx(40.0 / 280));
    evidence.kinds = {7, 7, 7, 7};  // one: nothing to divide
    CHECK_FALSE(judge(evidence).gain_spread);
}

TEST_CASE("copies count as one where evidence is counted") {
    const LayoutScore current = constant(150), proposed = constant(100);
    Evidence evidence = evidence_of(proposed, {{Rival::Kind::current, "trivial", &current}});
    evidence.record_slots = 64;
    evidence.distinct_record_slots = 7;
    CHECK_THAT(judge(evidence).reasons.front(), Contains("non-zero record slots: 64, 7 distinct, fewer than 8"));
    evidence.distinct_record_slots = 8;
    CHECK(judge(evidence).decision == Decision::recommend_trial);
}

TEST_CASE("a gain that random has too comes from leaving trivial's placing, not from the counts") {
    const LayoutScore trivial = constant(150), proposed = constant(120);
    const auto against = [&](double random) {
        const LayoutScore score = constant(random);
        return judge(evidence_of(
            proposed, {{Rival::Kind::current, "trivial", &trivial}, {Rival::Kind::random, "random", &score}}));
    };
    const Verdict verdict = against(122.4);  // 120 / 122.4 = 0.9804
    CHECK(verdict.decision == Decision::not_now);
    CHECK_THAT(verdict.reasons.front(),
               Contains("random placing reaches 1.2240 on the same record slots: gain 1.96 %"));
    CHECK_THAT(verdict.reasons.front(), Contains("a gain over trivial's placing, not from the counts"));
    CHECK(*verdict.gain == Approx(0.2));
    CHECK(verdict.comparisons.size() == 2);
    CHECK(verdict.comparisons.front().passed);
    CHECK_FALSE(verdict.comparisons.back().passed);
    CHECK(against(122.5).decision == Decision::recommend_trial);  // 120 / 122.5 = 0.9796
}

TEST_CASE("what redundancy 0 reaches is not bought by the redundant slots") {
    const LayoutScore trivial = constant(150), proposed = constant(120);
    const auto against = [&](double bare) {
        const LayoutScore score = constant(bare);
        return judge(evidence_of(
            proposed, {{Rival::Kind::current, "trivial", &trivial}, {Rival::Kind::redundancy_0, "", &score}}));
    };
    const Verdict none = against(119);
    CHECK(none.decision == Decision::not_now);
    CHECK_THAT(none.reasons.front(), Contains("the redundant slots buy -0.84 %, under 2.00 %"));
    const Verdict some = against(125);
    CHECK(some.decision == Decision::recommend_trial);
    CHECK_THAT(
        some.reasons.back(),
        Contains("redundancy 0 reaches 1.2500 on the same record slots: the redundant slots buy 4.00 %, spread"));
    CHECK(some.comparisons.back().name == "redundancy-0");
}

TEST_CASE("a rival that leaves an expert without a slot cannot be replaced on evidence, or is not compared with") {
    const LayoutScore current = constant(150), proposed = constant(100);
    CHECK(judge(evidence_of(proposed, {{Rival::Kind::current, "old.json", nullptr}})).reasons ==
          std::vector<std::string>{"old.json leaves an expert without a slot"});
    const Verdict verdict = judge(
        evidence_of(proposed, {{Rival::Kind::current, "trivial", &current}, {Rival::Kind::redundancy_0, "", nullptr}}));
    CHECK(verdict.decision == Decision::recommend_trial);
    CHECK(verdict.comparisons.size() == 1);
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
