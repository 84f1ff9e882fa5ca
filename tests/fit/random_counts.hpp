// Random weights and shapes for property tests: the kinds of load that fitters trip over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/geometry.hpp"
#include "core/random.hpp"

namespace eplb::test {

// One of: small integers with many ties, mostly zero, heavy-tailed, one giant expert, all equal, near the int64 limit.
inline std::vector<std::int64_t> random_weights(Random& random, int experts) {
    std::vector<std::int64_t> weights(static_cast<std::size_t>(experts));
    const auto kind = random.below(6);
    const std::int64_t same = random.below(1000);
    for (std::int64_t& weight : weights) {
        switch (kind) {
            case 0:
                weight = random.below(8);
                break;
            case 1:
                weight = random.below(10) == 0 ? static_cast<std::int64_t>(random.below(100)) : 0;
                break;
            case 2: {
                const double u = random.unit();
                weight = static_cast<std::int64_t>(100.0 / (0.001 + u * u));
                break;
            }
            case 3:
                weight = random.below(50);
                break;
            case 4:
                weight = same;
                break;
            default:
                weight = std::numeric_limits<std::int64_t>::max() - random.below(3);
                break;
        }
    }
    if (kind == 3) weights[random.below(static_cast<std::uint32_t>(experts))] = 1'000'000;
    return weights;
}

// R <= most_ranks, S <= most_slots, E anywhere from S to R*S.
inline Geometry random_geometry(Random& random, int most_ranks, int most_slots) {
    Geometry geometry;
    geometry.layers = 1;
    geometry.ranks = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(most_ranks)));
    geometry.slots_per_rank = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(most_slots)));
    const int least = geometry.slots_per_rank, most = geometry.physical_slots();
    switch (random.below(4)) {
        case 0:
            geometry.experts = least;
            break;
        case 1:
            geometry.experts = most;
            break;
        default:
            geometry.experts = least + static_cast<int>(random.below(static_cast<std::uint32_t>(most - least + 1)));
    }
    return geometry;
}

}  // namespace eplb::test
