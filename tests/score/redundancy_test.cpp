#include "score/redundancy.hpp"

#include <catch2/catch.hpp>

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

// One layer, four record slots, mean load 100, the same largest load in each.
LayoutScore steady(double max) {
    LayoutScore score;
    score.layers = {LayerBalance{max / 100, max / 100, 0}};
    score.steps = {1, 4, std::vector<double>(4, max), std::vector<double>(4, 100)};
    return score;
}

Evidence evidence_of(int record_slots) {
    Evidence evidence;
    evidence.record_slots = evidence.distinct_record_slots = record_slots;
    evidence.held_out = true;
    return evidence;
}

std::size_t chosen(const std::vector<double>& step_by_budget, int filled = 8) {
    std::vector<LayoutScore> scores;
    for (const double step : step_by_budget) scores.push_back(steady(100 * step));
    std::vector<BudgetScore> budgets;
    for (std::size_t i = 0; i < scores.size(); ++i) budgets.push_back({static_cast<int>(i) * 16, &scores[i]});
    return advise_redundancy(budgets, evidence_of(filled)).chosen;
}

}  // namespace

TEST_CASE("redundancy is taken as long as each step up gains 2 %") {
    CHECK(chosen({1.5, 1.2, 1.1}) == 2);
    CHECK(chosen({1.5, 1.2, 1.19}) == 1);
    CHECK(chosen({1.2, 1.19, 1.185}) == 0);
}

TEST_CASE("a step up is compared with what was chosen, so two small gains add up") {
    CHECK(chosen({1.2, 1.185, 1.17}) == 2);  // 1.25 %, then 2.5 % over none
}

TEST_CASE("more redundancy that makes it worse is not taken") {
    CHECK(chosen({1.2, 1.3, 1.25}) == 0);
}

TEST_CASE("one budget alone is the advice") {
    CHECK(chosen({1.2}) == 0);
}

TEST_CASE("without evidence the smallest budget stands, and the reason is said") {
    CHECK(chosen({1.5, 1.1}, 7) == 0);
    const LayoutScore small = steady(150), large = steady(110);
    const std::vector<BudgetScore> budgets{{0, &small}, {16, &large}};
    CHECK_THAT(advise_redundancy(budgets, evidence_of(7)).reasons.front(), Contains("non-zero record slots: 7"));
}
