// What every fit policy is given and what it gives back.
#pragma once

#include <cstdint>
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
    std::vector<LayerCounts> layers;  // [L] of [T, E], the same T everywhere
    Objective objective = Objective::window;
    Effort effort = Effort::standard;
    std::uint64_t seed = 0;
    int threads = 1;  // results do not depend on it
    Progress progress;
};

struct FitResult {
    Layout layout;  // legal: full coverage, S slots a rank, no expert twice on a rank
    std::vector<std::string>
        notes;  // what the reader should know: what the guard decided and why, repaired duplicates, ...
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
