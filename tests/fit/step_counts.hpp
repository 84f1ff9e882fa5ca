// Counts with record slots for tests of the step fit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/counts.hpp"
#include "core/layout.hpp"
#include "core/random.hpp"
#include "score/balance.hpp"

namespace eplb::test {

// Heavy-tailed popularity with bursts of single experts. May hold zero rows.
inline LayerCounts bursty_counts(Random& random, int slots, int experts) {
    LayerCounts counts{slots, experts, {}};
    std::vector<double> popularity(static_cast<std::size_t>(experts));
    for (double& p : popularity) p = 20.0 / (0.02 + random.unit());
    for (int slot = 0; slot < slots; ++slot) {
        for (const double p : popularity) {
            const double burst = random.below(12) == 0 ? 6 : 1;
            counts.values.push_back(static_cast<std::int64_t>(p * burst * (0.5 + random.unit())));
        }
    }
    return counts;
}

// Two topics shared by all layers; every slot is one of them or half of each, and all of it comes back.
inline std::vector<LayerCounts> topic_layers(Random& random, int layers, int slots, int experts) {
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        LayerCounts counts{slots, experts, {}};
        std::vector<double> topics[2];
        for (int e = 0; e < experts; ++e) {
            for (auto& topic : topics) topic.push_back(100 + 900 * random.unit());
        }
        for (int slot = 0; slot < slots; ++slot) {
            const double share = slot % 3 / 2.0;
            for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) {
                const double p = share * topics[0][e] + (1 - share) * topics[1][e];
                counts.values.push_back(static_cast<std::int64_t>(p * (0.99 + 0.02 * random.unit())));
            }
        }
        result.push_back(std::move(counts));
    }
    return result;
}

// A legal row whose replica counts and places are random.
inline std::vector<ExpertId> random_row(Random& random, int experts, int ranks, int slots_per_rank) {
    std::vector<ExpertId> row;
    const auto E = static_cast<std::uint32_t>(experts);
    // Every expert once in a cycle, so that any S <= E neighbours differ; random labels; then random legal swaps.
    std::vector<int> labels;
    for (int e = 0; e < experts; ++e) labels.push_back(e);
    for (std::uint32_t i = E; i > 1; --i) std::swap(labels[i - 1], labels[random.below(i)]);
    for (int p = 0; p < ranks * slots_per_rank; ++p) {
        row.push_back(ExpertId{labels[static_cast<std::size_t>(p % experts)]});
    }
    return row;
}

inline std::vector<double> even_shares(std::span<const ExpertId> row, int experts) {
    const auto replicas = replica_counts(row, experts);
    std::vector<double> shares;
    for (const ExpertId expert : row) shares.push_back(1.0 / replicas[static_cast<std::size_t>(expert.value)]);
    return shares;
}

// Step balancedness by the judge.
inline double judged_step(const LayerCounts& counts, std::span<const ExpertId> row, int ranks) {
    const auto scored = balance(counts, row, even_shares(row, counts.experts), ranks);
    return scored ? scored->step : 1;
}

}  // namespace eplb::test
