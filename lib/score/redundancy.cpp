#include "score/redundancy.hpp"

#include <fmt/format.h>

#include "score/verdict.hpp"

namespace eplb {

RedundancyAdvice advise_redundancy(std::span<const BudgetScore> budgets, int filled_record_slots, bool held_out,
                                   std::uint64_t seed) {
    RedundancyAdvice advice;
    for (std::size_t index = 1; index < budgets.size(); ++index) {
        const std::string smaller = fmt::format("+{}", budgets[advice.chosen].redundant_total);
        const Verdict verdict =
            judge({filled_record_slots, held_out, smaller, budgets[advice.chosen].score, budgets[index].score, seed});
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
