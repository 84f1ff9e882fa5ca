#include "score/balance.hpp"

#include <vector>

namespace eplb {

std::optional<LayerBalance> balance(const LayerCounts& counts, std::span<const ExpertId> row,
                                    std::span<const double> shares, int ranks) {
    const auto rank_count = static_cast<std::size_t>(ranks), slots_per_rank = row.size() / rank_count;
    std::vector<double> window_load(rank_count);
    double step_max = 0, step_mean = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        const auto expert_counts = counts.row(slot);
        double largest = 0, sum = 0;
        for (std::size_t rank = 0; rank < rank_count; ++rank) {
            double load = 0;
            for (std::size_t p = rank * slots_per_rank; p < (rank + 1) * slots_per_rank; ++p) {
                load += static_cast<double>(expert_counts[static_cast<std::size_t>(row[p].value)]) * shares[p];
            }
            window_load[rank] += load;
            largest = load > largest ? load : largest;
            sum += load;
        }
        step_max += largest;
        step_mean += sum / ranks;
    }
    if (step_mean == 0) return std::nullopt;
    LayerBalance result;
    double largest = -1, sum = 0;
    for (std::size_t rank = 0; rank < rank_count; ++rank) {
        sum += window_load[rank];
        if (window_load[rank] > largest) {
            largest = window_load[rank];
            result.worst_rank = static_cast<int>(rank);
        }
    }
    result.step = step_max / step_mean;
    result.window = largest / (sum / ranks);
    return result;
}

}  // namespace eplb
