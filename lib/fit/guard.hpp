// What the step fit decides for a whole model before it fits a layer.
#pragma once

#include <string>
#include <vector>

#include "fit/problem.hpp"

namespace eplb {

// Looks at the record slots only. facts.expected_holdout stays empty.
struct StepPlan {
    GuardFacts facts;
    double mean_slot_weight = 0;  // of the pseudo-slot that is the mean of all

    double predictability() const { return facts.predictability.value_or(0.3); }  // what is taken where it is unknown
};

StepPlan plan_step_fit(const FitProblem& problem);

// What the reader should know, one line each.
std::vector<std::string> describe(const GuardFacts& facts);

}  // namespace eplb
