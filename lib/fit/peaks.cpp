#include "fit/peaks.hpp"

#include <cmath>

namespace eplb {

std::vector<double> peak_weights(const LayerCounts& counts) {
    std::vector<double> sums(static_cast<std::size_t>(counts.experts));
    double total = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        const auto row = counts.row(slot);
        double slot_total = 0;
        for (const std::int64_t count : row) slot_total += static_cast<double>(count);
        if (slot_total == 0) continue;
        total += slot_total;
        const double scale = 1 / slot_total;
        for (std::size_t e = 0; e < sums.size(); ++e) {
            const double share = static_cast<double>(row[e]) * scale, square = share * share, fourth = square * square;
            sums[e] += slot_total * (fourth * fourth);
        }
    }
    if (total == 0) return sums;
    for (double& sum : sums) sum = std::sqrt(std::sqrt(std::sqrt(sum / total)));
    return sums;
}

}  // namespace eplb
