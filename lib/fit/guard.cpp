#include "fit/guard.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fit/predictability.hpp"
#include "fit/replica_exponent.hpp"

namespace eplb {
namespace {

// Below this predictability the slots show noise only: what chance gives (T - 2 coefficients fitted to E * L numbers)
// and a margin. docs/theory.md, "The guard".
double noise_level(const FitProblem& problem, int slots) {
    const double numbers = static_cast<double>(problem.geometry.experts) * static_cast<double>(problem.layers.size());
    return 0.02 + 1.5 * (slots - 2) / numbers;
}

int filled_slots_of(const FitProblem& problem) {
    int most = 0;
    for (const LayerCounts& counts : problem.layers) {
        int filled = 0;
        for (int slot = 0; slot < counts.slots; ++slot) filled += counts.slot_total(slot) > 0 ? 1 : 0;
        most = std::max(most, filled);
    }
    return most;
}

}  // namespace

StepPlan plan_step_fit(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    const int slots = filled_slots_of(problem), slots_per_rank = geometry.slots_per_rank;
    StepPlan plan;
    GuardFacts& facts = plan.facts;
    facts.record_slots = slots;
    facts.predictability = predictability(problem.layers, geometry.ranks, problem.threads);
    facts.replica_quarters = choose_replica_quarters(problem.layers, geometry.ranks, slots_per_rank);
    // The charge takes the rest of a rank for average, which one other expert is not.
    if (slots_per_rank <= 2) facts.replica_quarters = std::min(facts.replica_quarters, 4);
    if (facts.predictability) {
        facts.noise_level = noise_level(problem, std::min(slots, 32));
        const bool noise = *facts.predictability < facts.noise_level;
        // With two slots a rank one burst of one expert is the whole rank: signal must be strong to pay.
        const bool bursts = slots_per_rank <= 2 && *facts.predictability < 0.5;
        facts.window_fit = noise || bursts;
    }
    // Replica moves fit the peaks of the slots seen; they pay with many slots or where there are few replicas to
    // choose.
    const bool moves = slots == 1 || (slots_per_rank >= 3 && (slots >= 80 || geometry.physical_slots() <= 32));
    facts.replica_share = moves ? 0.02 : 0;
    const bool steady = slots >= 64 || (slots >= 16 && facts.predictability.value_or(0) >= 0.5);
    plan.mean_slot_weight = steady ? 0 : 0.1;
    return plan;
}

std::vector<std::string> describe(const GuardFacts& facts) {
    std::vector<std::string> notes;
    if (facts.predictability && facts.window_fit) {
        notes.push_back(
            fmt::format("guard: window fit, because the {} record slots do not predict each other (R2 {:.3f}, noise "
                        "gives up to {:.3f})",
                        facts.record_slots, *facts.predictability, facts.noise_level));
        return notes;
    }
    if (facts.predictability) {
        notes.push_back(fmt::format("guard: step fit, because the {} record slots predict each other (R2 {:.3f})",
                                    facts.record_slots, *facts.predictability));
    } else {
        notes.push_back(fmt::format("guard: step fit unguarded, {} record slots are too few to tell signal from noise",
                                    facts.record_slots));
    }
    notes.push_back(fmt::format("replica counts: exponent {} of the peaks over the mean{}",
                                facts.replica_quarters / 4.0,
                                facts.replica_share > 0 ? ", then moved by the annealer" : ""));
    return notes;
}

}  // namespace eplb
