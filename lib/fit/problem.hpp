// What every fit policy is given and what it gives back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/counts.hpp"
#include "core/layout.hpp"
#include "core/progress.hpp"

namespace eplb {

enum class Objective { step, window };
enum class Effort { fast, standard, thorough };  // named fast, default, thorough on the command line

// The counts to fit on (non-zero record slots of the fit part), and what is wanted. A layer may be all zero: it gets
// the trivial row, or another legal one where the trivial row is not legal.
struct FitProblem {
    Geometry geometry;                // feasible; geometry.layers == layers.size()
    std::vector<LayerCounts> layers;  // [L] of [T, E], the same T everywhere; the total of each below 2^63
    Objective objective = Objective::window;
    Effort effort = Effort::standard;
    std::uint64_t seed = 0;
    int threads = 1;  // results do not depend on it
    Progress progress;
};

// What the step objective's guard saw and decided for the whole model, and what it expects.
struct GuardFacts {
    int record_slots = 0;                  // with counts, copies once
    bool window_fit = false;               // the slots show noise only, so every layer got the window fit
    std::optional<double> predictability;  // pooled leave-one-out R^2 of slots by slots; empty: fewer than three slots
    double noise_level = 0;                // what it must exceed
    std::optional<double> difference_of_two;  // of exactly two slots: how many times counting noise they differ by
    int replica_quarters = 0;                 // exponent of the peaks in the replica counts, in quarters
    double replica_share = 0;                 // of the annealer's proposals that change replica counts
    double mean_shrink = 1;                   // mean over the layers of the factor lambda towards the mean slot
    int step_layers = 0, window_layers = 0;   // layers by the fit that won on the fitted slots
    // Cross-validated on a sample of the layers; empty with fewer than three record slots.
    std::optional<double> expected_holdout;  // mean step balancedness on slots not fitted on
    std::optional<double> expected_gain;     // by how much it is below the window fit's there
    double expected_gain_error = 0;          // its standard error over the sampled layers
};

struct FitResult {
    Layout layout;  // legal: full coverage, S slots a rank, no expert twice on a rank
    std::vector<std::string>
        notes;  // what the reader should know: what the guard decided and why, repaired duplicates, ...
    std::optional<GuardFacts> guard = std::nullopt;  // of the step objective
};

// One line of the table of policies.
struct FitPolicy {
    std::string_view name;         // --policy NAME
    std::string_view summary;      // one line for help and docs
    bool obeys_objective = false;  // whether --objective may be given
    FitResult (*fit)(const FitProblem& problem) = nullptr;
};

std::span<const FitPolicy> fit_policies();

// Throws Error{usage} that lists the names.
const FitPolicy& find_fit_policy(std::string_view name);

// Runs a policy. Throws Error{infeasible} for a geometry without a legal layout, Interrupted when asked to stop, and
// Error{internal} when the counts do not have the shape of the geometry or the policy gave an illegal layout.
FitResult fit(const FitPolicy& policy, const FitProblem& problem);

}  // namespace eplb
