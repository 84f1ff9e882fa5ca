#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "fit/policies.hpp"
#include "fit/problem.hpp"

namespace eplb {
namespace {

constexpr std::array policies{
    FitPolicy{"search", "ours: replicas, placement and exchanges for the objective asked for", true, policy::search},
    FitPolicy{"greedy-swap", "published recipe: greedy replicas, longest first, exchanges on the busiest rank", false,
              policy::greedy_swap},
    FitPolicy{"deepseek", "DeepSeek EPLB without groups, its duplicates repaired", false, policy::deepseek},
    FitPolicy{"trivial", "slot p holds expert p mod E: the layout of a server without a map", false, policy::trivial},
    FitPolicy{"random", "seeded random layout: what a placement that knows nothing gives", false, policy::random},
};

// Policies are judged here, whatever they believe of themselves.
void require_legal(const FitPolicy& policy, const Geometry& geometry, const Layout& layout) {
    const auto refuse = [&](std::string where, std::string what) {
        throw Error(ErrorCode::internal, std::move(where),
                    fmt::format("policy {} gave an illegal layout: {}", policy.name, what), "please report this bug");
    };
    if (layout.geometry() != geometry) refuse("", "its geometry is " + describe(layout.geometry()));
    const auto slots_per_rank = static_cast<std::size_t>(geometry.slots_per_rank);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const auto row = layout.row(layer);
        std::vector<int> last_rank(static_cast<std::size_t>(geometry.experts), -1);
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            const int rank = static_cast<int>(slot / slots_per_rank), expert = row[slot].value;
            if (std::exchange(last_rank.at(static_cast<std::size_t>(expert)), rank) == rank) {
                refuse(fmt::format("layer {}", layer), fmt::format("expert {} is twice on rank {}", expert, rank));
            }
        }
        const auto missing = std::find(last_rank.begin(), last_rank.end(), -1);
        if (missing != last_rank.end()) {
            refuse(fmt::format("layer {}", layer), fmt::format("expert {} is missing", missing - last_rank.begin()));
        }
    }
}

void require_consistent(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    require_feasible(geometry);
    bool consistent = problem.threads >= 1 && static_cast<std::size_t>(geometry.layers) == problem.layers.size();
    for (const LayerCounts& counts : problem.layers) {
        consistent = consistent && counts.experts == geometry.experts && counts.slots == problem.layers.front().slots;
    }
    if (!consistent) throw Error(ErrorCode::internal, "fit", "the counts do not have the shape of the geometry");
}

}  // namespace

std::span<const FitPolicy> fit_policies() {
    return policies;
}

const FitPolicy& find_fit_policy(std::string_view name) {
    std::string names;
    for (const FitPolicy& policy : policies) {
        if (policy.name == name) return policy;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", policy.name);
    }
    throw Error(ErrorCode::usage, "--policy", fmt::format("'{}' is not a policy", name), "one of " + names);
}

FitResult fit(const FitPolicy& policy, const FitProblem& problem) {
    require_consistent(problem);
    FitResult result = policy.fit(problem);
    require_legal(policy, problem.geometry, result.layout);
    return result;
}

}  // namespace eplb
