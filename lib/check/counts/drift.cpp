// Do the record slots come from one load? Compared are the expert shares of the first and the second half
// of the filled record slots; every other slot against the rest shows how much of that is sampling noise.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "core/counts.hpp"
#include "core/equal_slots.hpp"
#include "core/record_split.hpp"

namespace eplb::check {
namespace {

// Total variation between the expert shares of the two parts, [counted layers], layers empty in a part left out.
std::vector<double> total_variations(const CountContext& context, const RecordSplit& split) {
    const CountStatistics& statistics = context.statistics;
    const Counts counts({context.tensor});
    const auto experts = static_cast<std::size_t>(statistics.experts);
    std::vector<std::int64_t> row(experts), held_out(experts);
    std::vector<double> result;
    for (const int layer : statistics.counted_layers()) {
        std::fill(held_out.begin(), held_out.end(), 0);
        std::int64_t held_out_total = 0;
        for (const int slot : split.holdout) {
            counts.read_row(slot, layer, row);
            for (std::size_t expert = 0; expert < experts; ++expert) held_out[expert] += row[expert];
            held_out_total += statistics.row_totals[statistics.row(slot, layer)];
        }
        const std::int64_t fit_total = statistics.layer_totals[static_cast<std::size_t>(layer)] - held_out_total;
        if (fit_total == 0 || held_out_total == 0) continue;
        const std::size_t first = statistics.cell(layer, 0);
        double sum = 0;
        for (std::size_t expert = 0; expert < experts; ++expert) {
            const std::int64_t fitted = statistics.expert_totals[first + expert] - held_out[expert];
            const double difference = static_cast<double>(fitted) / static_cast<double>(fit_total) -
                                      static_cast<double>(held_out[expert]) / static_cast<double>(held_out_total);
            sum += difference < 0 ? -difference : difference;
        }
        result.push_back(sum / 2);
    }
    std::sort(result.begin(), result.end());
    return result;
}

double median(const std::vector<double>& sorted) {
    return sorted.empty() ? 0.0 : sorted[(sorted.size() - 1) / 2];
}

}  // namespace

Findings check_drift(const CountContext& context) {
    // A tenth of the traffic, and three times the noise: the loads of different tasks differ by far more (0.27 at a
    // noise of 0.02 for four tasks in a row), the topics of one load by less (0.08 at 0.02 to 0.04 in made-up counts).
    constexpr double least = 0.10, times_noise = 3;
    constexpr int least_slots = 8;
    const std::vector<int>&filled = context.statistics.filled, &equal = context.statistics.first_equal;
    if (distinct(equal) < least_slots) return {};
    const double halves = median(total_variations(context, split_record_slots(filled, Holdout::halves, equal)));
    const double noise = median(total_variations(context, split_record_slots(filled, Holdout::interleave, equal)));
    if (halves < least || halves < times_noise * noise) return {};
    return {{Severity::warning, "HALVES_DIFFER", "",
             fmt::format("in the median layer {:.1f} % of the traffic sits on other experts in the second half of the "
                         "record slots than in the first (sampling noise: {:.1f} %)",
                         100 * halves, 100 * noise),
             "the load changed while recording: judge with --holdout halves, or record each load by itself"}};
}

}  // namespace eplb::check
