// Rows without counts. Leading ones are dense layers in most models, but not proof of
// it: hash-routed MoE layers were left at zero by some recorders (seen in sgl-project/sglang PR 25961).
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/expected_layers.hpp"
#include "check/wording.hpp"

namespace eplb::check {
namespace {

std::string plural(std::size_t number) {
    return fmt::format("{} layer{}", number, number == 1 ? "" : "s");
}

// What says that a layer has no experts.
std::string source_of(const CountOptions& options) {
    return options.model_config ? "the model config" : "--dense-layers " + options.dense_layers->text();
}

Finding unexplained_layers(const CountOptions& options, const ExpectedLayers& layers, int all) {
    const bool few = layers.most_counted();
    return {
        few ? Severity::warning : Severity::error, "ZERO_LAYERS",
        fmt::format("layers {}", number_ranges(layers.unexplained)),
        few ? fmt::format("{} of {} without any count, and nothing says why", plural(layers.unexplained.size()), all)
            : fmt::format("{} of {} without any count, and nothing says why: {} of about {} with experts are counted",
                          plural(layers.unexplained.size()), all, layers.counted, layers.expected),
        fmt::format("state what they are: {}or --take-layers for a pipeline stage; else a recorder "
                    "without layer context wrote into the wrong rows, and those layers get a layout without evidence",
                    options.dense_layers ? "" : "--dense-layers, ")};
}

}  // namespace

Findings check_zero_layers(const CountContext& context) {
    const CountOptions& options = context.options;
    const ExpectedLayers layers = expected_layers(options, context.statistics.layers, context.statistics.zero_layers);
    Findings findings;
    if (!layers.contradicted.empty()) {
        findings.push_back(
            {Severity::error, "DENSE_LAYER_COUNTS", fmt::format("layers {}", number_ranges(layers.contradicted)),
             fmt::format("{} says these layers have no experts, but they have counts", source_of(options)),
             "a shifted layer index, or another model's dump"});
    }
    std::vector<int> dense;
    for (const int layer : layers.stated) {
        if (options.dense_layers && options.dense_layers->contains(layer)) dense.push_back(layer);
    }
    if (!dense.empty()) {
        findings.push_back({Severity::info, "LEADING_ZERO_LAYERS", fmt::format("layers {}", number_ranges(dense)),
                            fmt::format("{} without counts, as {} says", plural(dense.size()), source_of(options)),
                            ""});
    }
    if (!layers.leading.empty()) {
        findings.push_back({Severity::info, "LEADING_ZERO_LAYERS",
                            fmt::format("layers {}", number_ranges(layers.leading)),
                            fmt::format("{} leading layer{} without counts; not assumed to be dense",
                                        layers.leading.size(), layers.leading.size() == 1 ? "" : "s"),
                            "say --dense-layers if the model has dense layers; hash-routed MoE layers may be left at "
                            "zero by a recorder"});
    }
    if (!layers.unexplained.empty()) {
        findings.push_back(unexplained_layers(options, layers, context.statistics.layers));
    }
    return findings;
}

}  // namespace eplb::check
