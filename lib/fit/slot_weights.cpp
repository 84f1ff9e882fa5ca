#include "fit/slot_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/equal_slots.hpp"

namespace eplb {
namespace {

constexpr int few_slots = 7, some_slots = 31;  // docs/theory.md, "The guard"
// What the largest slot holds after scaling: fine enough for the smallest share, far from the end of the range.
constexpr double scaled_total = 0x1p40;

}  // namespace

std::optional<FitProblem> without_copies(const FitProblem& problem) {
    const std::vector<int> first = first_equal(problem.layers);
    if (distinct(first) == static_cast<int>(first.size())) return std::nullopt;
    FitProblem merged = problem;
    merged.layers.clear();
    for (const LayerCounts& counts : problem.layers) {
        LayerCounts& kept = merged.layers.emplace_back(LayerCounts{0, counts.experts, {}});
        for (int slot = 0; slot < counts.slots; ++slot) {
            if (first[static_cast<std::size_t>(slot)] != slot) continue;
            const auto copies = std::count(first.begin(), first.end(), slot);
            for (const std::int64_t count : counts.row(slot)) kept.values.push_back(count * copies);
            ++kept.slots;
        }
    }
    return merged;
}

WeighedCounts weigh_slots(const LayerCounts& counts) {
    WeighedCounts result{counts, 0};
    std::vector<double> totals;
    double largest = 0, sum = 0, filled = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        totals.push_back(static_cast<double>(counts.slot_total(slot)));
        largest = std::max(largest, totals.back());
        sum += totals.back();
        filled += totals.back() > 0 ? 1 : 0;
    }
    if (filled > 0) result.inverse_total = filled / sum;
    if (filled < 2 || filled > some_slots) return result;
    double weights = 0, inverse = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        const double total = totals[static_cast<std::size_t>(slot)];
        if (total == 0) continue;
        const double weight = filled <= few_slots ? 1 : std::sqrt(total / largest),
                     factor = weight * scaled_total / total;
        weights += weight;
        inverse += weight / total;
        const auto row = std::span(result.counts.values)
                             .subspan(static_cast<std::size_t>(slot) * static_cast<std::size_t>(counts.experts),
                                      static_cast<std::size_t>(counts.experts));
        for (std::int64_t& count : row) count = static_cast<std::int64_t>(static_cast<double>(count) * factor + 0.5);
    }
    result.inverse_total = inverse / weights;
    return result;
}

}  // namespace eplb
