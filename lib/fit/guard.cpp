#include "fit/guard.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fit/predictability.hpp"
#include "fit/replica_exponent.hpp"
#include "fit/slot_weights.hpp"

namespace eplb {
namespace {

// Below this predictability the slots show noise only: what chance gives, with a margin for noise that is not counting
// noise, and more where few slots say what the others are predicted from. docs/theory.md, "The guard".
double noise_level(const Predictability& found, int slots) {
    return std::max(0.02, 0.9 / (slots * slots)) + 1.5 * found.chance;
}

// Two slots cannot predict each other. They are fitted when they differ by more than this many times counting noise.
constexpr double least_difference_of_two = 8;

int filled_slots_of(std::span<const LayerCounts> layers) {
    int most = 0;
    for (const LayerCounts& counts : layers) {
        int filled = 0;
        for (int slot = 0; slot < counts.slots; ++slot) filled += counts.slot_total(slot) > 0 ? 1 : 0;
        most = std::max(most, filled);
    }
    return most;
}

}  // namespace

StepPlan plan_step_fit(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    const std::optional<FitProblem> merged = without_copies(problem);
    const auto& layers = merged ? merged->layers : problem.layers;
    const int slots = filled_slots_of(layers), slots_per_rank = geometry.slots_per_rank;
    StepPlan plan;
    GuardFacts& facts = plan.facts;
    facts.record_slots = slots;
    facts.replica_quarters = choose_replica_quarters(layers, geometry.ranks, slots_per_rank);
    // The charge takes the rest of a rank for average, which one other expert is not.
    if (slots_per_rank <= 2) facts.replica_quarters = std::min(facts.replica_quarters, 4);
    if (const auto found = predictability(problem.layers, geometry.ranks, problem.threads)) {
        facts.predictability = found->r2;
        facts.noise_level = noise_level(*found, slots);
        const bool noise = *facts.predictability < facts.noise_level;
        // With two slots a rank one burst of one expert is the whole rank: signal must be strong to pay.
        const bool bursts = slots_per_rank <= 2 && *facts.predictability < 0.5;
        facts.window_fit = noise || bursts;
    }
    if (const auto difference = difference_of_two(problem.layers, geometry.ranks, problem.threads)) {
        facts.difference_of_two = difference;
        facts.window_fit = *difference < least_difference_of_two;
    }
    if (slots == 1) facts.window_fit = true;  // both objectives are the same there, and the window fit is quicker
    // Replica moves fit the peaks of the slots seen; they pay with many slots or where there are few replicas to
    // choose.
    const bool moves = slots_per_rank >= 3 && (slots >= 80 || geometry.physical_slots() <= 32);
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
    if (facts.difference_of_two) {
        notes.push_back(
            fmt::format("guard: {} fit, because the two record slots differ by {:.1f} times what counting "
                        "noise gives ({} is asked for)",
                        facts.window_fit ? "window" : "step", *facts.difference_of_two, least_difference_of_two));
        if (facts.window_fit) return notes;
    } else if (facts.window_fit) {
        notes.push_back("guard: window fit, because with one record slot both objectives are the same");
        return notes;
    } else if (facts.predictability) {
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
