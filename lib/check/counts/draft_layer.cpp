// Draft (MTP) passes that count into a layer of the target model multiply its total (seen in sgl-project/sglang PR
// 7201).
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "core/wide.hpp"

namespace eplb::check {
namespace {

// |a - b| <= b / 1000: the tolerance of LAYER_TOTAL_MISMATCH.
bool about_equal(std::int64_t a, std::int64_t b) {
    return !ratio_greater(a > b ? a - b : b - a, b, 1, 1000);
}

}  // namespace

Findings check_draft_layer(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const std::vector<int> layers = statistics.counted_layers();
    if (layers.size() < 3) return {};  // of two layers nobody can say which one is too large
    const auto total = [&](int layer) { return statistics.layer_totals[static_cast<std::size_t>(layer)]; };
    const int largest =
        *std::max_element(layers.begin(), layers.end(), [&](int a, int b) { return total(a) < total(b); });
    const std::int64_t usual = total(layers.front() == largest ? layers.back() : layers.front());
    for (const int layer : layers) {
        if (layer != largest && !about_equal(total(layer), usual)) return {};
    }
    const std::int64_t multiple = (total(largest) + usual / 2) / usual;
    if (multiple < 2 || !about_equal(total(largest) / multiple, usual)) return {};
    return {
        {Severity::warning, "DRAFT_PASSES_SUSPECTED", fmt::format("layer {}", largest),
         fmt::format("its total {} is {} times that of every other layer", total(largest), multiple),
         "draft-model or verify passes may have been counted into this layer; record without speculative decoding"}};
}

}  // namespace eplb::check
