#include "check/top_k_guess.hpp"

#include <numeric>
#include <set>

#include "core/wide.hpp"

namespace eplb {
namespace {

constexpr std::int64_t largest_top_k = 64;

}  // namespace

std::optional<int> guess_top_k(const CountStatistics& statistics) {
    constexpr std::size_t least_different = 8;
    std::int64_t divisor = 0;
    std::set<std::int64_t> totals;
    const std::vector<int> layers = statistics.counted_layers();
    for (const int slot : statistics.filled) {
        const std::int64_t total = statistics.row_totals[statistics.row(slot, layers.front())];
        for (const int layer : layers) {
            if (statistics.row_totals[statistics.row(slot, layer)] != total) return std::nullopt;
        }
        divisor = std::gcd(divisor, total);
        totals.insert(total);
    }
    if (totals.size() < least_different || divisor > largest_top_k) return std::nullopt;
    for (std::size_t row = 0; row < statistics.row_totals.size(); ++row) {
        if (statistics.row_maxima[row] > statistics.row_totals[row] / divisor) return std::nullopt;
    }
    return static_cast<int>(divisor);
}

std::optional<int> top_k_ceiling(const CountStatistics& statistics) {
    constexpr int least_rows = 8;
    std::int64_t highest = 0, its_total = 1;
    int rows = 0;
    for (std::size_t position = 0; position < statistics.filled.size(); ++position) {
        if (statistics.first_equal[position] != static_cast<int>(position)) continue;  // a copy shows nothing new
        for (int layer = 0; layer < statistics.layers; ++layer) {
            const std::size_t row = statistics.row(statistics.filled[position], layer);
            const std::int64_t cell = statistics.row_maxima[row], total = statistics.row_totals[row];
            if (total == 0 || ratio_greater(highest, its_total, cell, total)) continue;
            if (ratio_greater(cell, total, highest, its_total)) highest = cell, its_total = total, rows = 0;
            ++rows;
        }
    }
    if (rows < least_rows || its_total % highest != 0 || its_total / highest > largest_top_k) return std::nullopt;
    return static_cast<int>(its_total / highest);
}

}  // namespace eplb
