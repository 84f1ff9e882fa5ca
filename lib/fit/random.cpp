#include <algorithm>
#include <vector>

#include "core/random.hpp"
#include "fit/layers.hpp"
#include "fit/place.hpp"
#include "fit/policies.hpp"

namespace eplb::policy {

// Extra replicas go to random experts, and the placement balances random loads: legal by construction, and it knows
// nothing of the counts.
FitResult random(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    const auto experts = static_cast<std::size_t>(geometry.experts);
    FitResult result;
    result.layout = Layout(geometry);
    for_each_layer(problem, [&](int layer) {
        Random draw(stream_seed(problem.seed, static_cast<std::uint64_t>(layer)));
        std::vector<int> replicas(experts, 1), open(experts);
        for (std::size_t e = 0; e < experts; ++e) open[e] = static_cast<int>(e);
        for (int rest = geometry.redundant_total(); rest > 0; --rest) {
            auto at = open.begin() + draw.below(static_cast<std::uint32_t>(open.size()));
            while (replicas[static_cast<std::size_t>(*at)] == geometry.ranks) {
                std::swap(*at, open.back());
                open.pop_back();
                at = open.begin() + draw.below(static_cast<std::uint32_t>(open.size()));
            }
            ++replicas[static_cast<std::size_t>(*at)];
        }
        std::vector<double> loads(experts);
        for (double& load : loads) load = draw.unit();
        std::ranges::copy(place(loads, replicas, geometry.ranks, geometry.slots_per_rank),
                          result.layout.row(layer).begin());
    });
    return result;
}

}  // namespace eplb::policy
