// Rows without counts. Leading ones are dense layers in most models, but not proof of
// it: hash-routed MoE layers were left at zero by some recorders (seen in sgl-project/sglang PR 25961).
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

Findings check_zero_layers(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const std::vector<int>& zero = statistics.zero_layers;
    const int declared = context.options.dense_layers.value_or(0);
    std::vector<int> leading, inner;
    for (const int layer : zero) {
        const bool at_start =
            context.options.dense_layers ? layer < declared : layer == static_cast<int>(leading.size());
        (at_start ? leading : inner).push_back(layer);
    }
    Findings findings;
    if (static_cast<int>(leading.size()) < declared) {
        std::vector<int> counted;
        for (const int layer : statistics.counted_layers()) {
            if (layer < declared) counted.push_back(layer);
        }
        findings.push_back(
            {Severity::error, "DENSE_LAYER_COUNTS", fmt::format("layers {}", number_ranges(counted)),
             fmt::format("--dense-layers {} says these layers have no experts, but they have counts", declared),
             "a shifted layer index, or another model's dump"});
    }
    if (!leading.empty()) {
        findings.push_back(
            {Severity::info, "LEADING_ZERO_LAYERS", fmt::format("layers {}", number_ranges(leading)),
             fmt::format("{} leading layer{} without counts{}", leading.size(), leading.size() == 1 ? "" : "s",
                         context.options.dense_layers ? ", as --dense-layers says" : "; not assumed to be dense"),
             context.options.dense_layers ? ""
                                          : "say --dense-layers if the model has dense layers; hash-routed MoE layers "
                                            "may be left at zero by a recorder"});
    }
    if (!inner.empty()) {
        findings.push_back(
            {Severity::warning, "ZERO_LAYERS", fmt::format("layers {}", number_ranges(inner)),
             fmt::format("{} layer{} without any count beyond the {}", inner.size(), inner.size() == 1 ? "" : "s",
                         context.options.dense_layers ? "dense ones" : "leading ones"),
             "a recorder without layer context writes counts into the wrong row; those layers get a "
             "layout without evidence"});
    }
    return findings;
}

}  // namespace eplb::check
