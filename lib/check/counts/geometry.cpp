// The layers and experts that the user says the model has.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "check/counts/checks.hpp"
#include "core/count_axes.hpp"

namespace eplb::check {
namespace {

// Another order of the axes that goes with the flags, the fewest moved first.
std::optional<std::string> other_order(const std::vector<std::int64_t>& shape, const CountOptions& options) {
    using enum CountAxis;
    constexpr std::array<std::array<CountAxis, 3>, 5> orders{{{layers, slots, experts},
                                                              {slots, experts, layers},
                                                              {experts, layers, slots},
                                                              {experts, slots, layers},
                                                              {layers, experts, slots}}};
    for (const auto& order : orders) {
        const auto goes = [&](CountAxis axis, std::optional<int> wanted) {
            const auto place = std::find(order.begin(), order.end(), axis) - order.begin();
            return !wanted || shape[static_cast<std::size_t>(place)] == *wanted;
        };
        if (!goes(layers, options.layers) || !goes(experts, options.experts)) continue;
        const std::span<const CountAxis> axes(order);
        return axes_text(shape[0] == 1 && order[0] == slots ? axes.subspan(1) : axes);
    }
    return std::nullopt;
}

// A recorder that counts only MoE layers gives L - dense rows; a layout needs a row for every layer.
std::string layers_hint(std::int64_t found, const CountOptions& options) {
    std::int64_t dense = 0;
    for (int layer = 0; options.dense_layers && layer < *options.layers; ++layer) {
        dense += options.dense_layers->contains(layer);
    }
    if (dense > 0 && found + dense == *options.layers) {
        return "these look like the MoE layers only; an SGLang layout needs a row for every hidden layer, dense ones "
               "too";
    }
    return "give the number of hidden layers of the model's config, or use the dump of the right model";
}

std::string experts_hint(std::int64_t found, const CountOptions& options) {
    if (found > *options.experts) {
        return fmt::format(
            "{} columns beyond the router's experts: these look like counts of physical slots with {} redundant ones, "
            "which --recorded-layout FILE folds, or like fused shared experts; else export logical counts",
            found - *options.experts, found - *options.experts);
    }
    return "give the number of routed experts of the model's config, or use the dump of the right model";
}

}  // namespace

Findings check_geometry(const CountContext& context) {
    const auto& shape = context.tensor.shape;
    Findings findings;
    const CountOptions& options = context.options;
    const bool layers_differ = options.layers && shape[1] != *options.layers;
    const bool experts_differ = options.experts && shape[2] != *options.experts;
    if (!layers_differ && !experts_differ) return {};
    std::string reading;
    if (const auto axes = other_order(shape, options)) {
        reading = fmt::format("; or the axes stand in another order: --axes {} would go with the flags", *axes);
    }
    if (layers_differ) {
        findings.push_back({Severity::error, "LAYERS_MISMATCH", "",
                            fmt::format("{} layers, --layers says {}", shape[1], *options.layers),
                            layers_hint(shape[1], options) + reading});
    }
    if (experts_differ) {
        findings.push_back({Severity::error, "EXPERTS_MISMATCH", "",
                            fmt::format("{} experts, --experts says {}", shape[2], *options.experts),
                            experts_hint(shape[2], options) + reading});
    }
    return findings;
}

}  // namespace eplb::check
