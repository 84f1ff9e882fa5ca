#include "score/redundancy.hpp"

#include <fmt/format.h>

namespace eplb {

RedundancyAdvice advise_redundancy(std::span<const BudgetScore> budgets, const Evidence& base) {
    RedundancyAdvice advice;
    for (std::size_t index = 1; index < budgets.size(); ++index) {
        const std::string smaller = fmt::format("+{}", budgets[advice.chosen].redundant_total);
        Evidence evidence = base;
        evidence.proposed = budgets[index].score;
        evidence.rivals = {{Rival::Kind::current, smaller, budgets[advice.chosen].score}};
        const Verdict verdict = judge(evidence);
        if (verdict.decision == Decision::insufficient_evidence) {
            advice.reasons = {verdict.reasons.front()};
            return advice;
        }
        advice.reasons.push_back(fmt::format("+{}: {}", budgets[index].redundant_total, verdict.reasons.front()));
        if (verdict.decision == Decision::recommend_trial) advice.chosen = index;
    }
    return advice;
}

}  // namespace eplb
