#include "score/balance.hpp"

#include <algorithm>

namespace eplb {

LayerLoads layer_loads(const LayerCounts& counts, std::span<const ExpertId> row, std::span<const double> shares,
                       int ranks) {
    const auto rank_count = static_cast<std::size_t>(ranks), slots_per_rank = row.size() / rank_count;
    LayerLoads loads;
    loads.step_max.resize(static_cast<std::size_t>(counts.slots));
    loads.step_mean.resize(static_cast<std::size_t>(counts.slots));
    loads.rank_total.resize(rank_count);
    for (int slot = 0; slot < counts.slots; ++slot) {
        const auto expert_counts = counts.row(slot);
        double largest = 0, sum = 0;
        for (std::size_t rank = 0; rank < rank_count; ++rank) {
            double load = 0;
            for (std::size_t p = rank * slots_per_rank; p < (rank + 1) * slots_per_rank; ++p) {
                load += static_cast<double>(expert_counts[static_cast<std::size_t>(row[p].value)]) * shares[p];
            }
            loads.rank_total[rank] += load;
            largest = load > largest ? load : largest;
            sum += load;
        }
        loads.step_max[static_cast<std::size_t>(slot)] = largest;
        loads.step_mean[static_cast<std::size_t>(slot)] = sum / ranks;
    }
    return loads;
}

namespace {

// max/mean. The largest value is never below the mean, whatever the sums lose in rounding.
double above_mean(double largest, double mean) {
    return std::max(largest / mean, 1.0);
}

}  // namespace

std::optional<LayerBalance> balance(const LayerLoads& loads) {
    double step_max = 0, step_mean = 0;
    for (const double value : loads.step_max) step_max += value;
    for (const double value : loads.step_mean) step_mean += value;
    if (step_mean == 0) return std::nullopt;
    LayerBalance result;
    double largest = -1, sum = 0;
    for (std::size_t rank = 0; rank < loads.rank_total.size(); ++rank) {
        sum += loads.rank_total[rank];
        if (loads.rank_total[rank] > largest) {
            largest = loads.rank_total[rank];
            result.worst_rank = static_cast<int>(rank);
        }
    }
    result.step = above_mean(step_max, step_mean);
    result.window = above_mean(largest, sum / static_cast<double>(loads.rank_total.size()));
    return result;
}

std::optional<LayerBalance> balance(const LayerCounts& counts, std::span<const ExpertId> row,
                                    std::span<const double> shares, int ranks) {
    return balance(layer_loads(counts, row, shares, ranks));
}

}  // namespace eplb
