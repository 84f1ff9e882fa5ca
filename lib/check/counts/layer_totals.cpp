// In one record slot every MoE layer routes the same tokens, so their totals are equal.
// Half of the public SGLang files differ by up to 4.7e-4 (padding, approximate modes): up to 1e-3 is a warning.
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"
#include "core/wide.hpp"

namespace eplb::check {
namespace {

struct Extremes {
    int slot = 0, low_layer = 0, high_layer = 0;
    std::int64_t low = 0, high = 0;
    bool wider_than(const Extremes& other) const {  // (high - low) / high, exactly
        return other.high == 0 || ratio_greater(high - low, high, other.high - other.low, other.high);
    }
    bool above_tolerance() const { return ratio_greater(high - low, high, 1, 1000); }
};

}  // namespace

Findings check_layer_totals(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const std::vector<int> layers = statistics.counted_layers();
    Extremes worst;
    std::int64_t deviating = 0;
    for (const int slot : statistics.filled) {
        Extremes extremes{slot, layers.front(), layers.front(), 0, 0};
        extremes.low = extremes.high = statistics.row_totals[statistics.row(slot, layers.front())];
        for (const int layer : layers) {
            const std::int64_t total = statistics.row_totals[statistics.row(slot, layer)];
            if (total < extremes.low) extremes.low = total, extremes.low_layer = layer;
            if (total > extremes.high) extremes.high = total, extremes.high_layer = layer;
        }
        if (extremes.low == extremes.high) continue;
        ++deviating;
        if (extremes.wider_than(worst)) worst = extremes;
    }
    if (deviating == 0) return {};
    const bool error = worst.above_tolerance();
    return {{error ? Severity::error : Severity::warning, "LAYER_TOTAL_MISMATCH",
             fmt::format("record slot {}, layers {} and {}", worst.slot, worst.low_layer, worst.high_layer),
             fmt::format("layer {} counts {} and layer {} counts {} (spread {:.2g}); {} of {} record slots deviate",
                         worst.low_layer, worst.low, worst.high_layer, worst.high,
                         static_cast<double>(worst.high - worst.low) / static_cast<double>(worst.high), deviating,
                         statistics.filled.size()),
             error ? "every MoE layer of a pass routes the same tokens: layers were recorded partly, under a wrong "
                     "index, or from different passes; record again"
                   : "small deviations come from padding, draft passes or an approximate recorder mode"}};
}

}  // namespace eplb::check
