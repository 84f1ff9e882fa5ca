// The layers and experts that the user says the model has.
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {
namespace {

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
        return "columns beyond the router's experts are physical slots or fused shared experts; export logical counts";
    }
    return "give the number of routed experts of the model's config, or use the dump of the right model";
}

}  // namespace

Findings check_geometry(const CountContext& context) {
    const auto& shape = context.tensor.shape;
    Findings findings;
    const CountOptions& options = context.options;
    if (options.layers && shape[1] != *options.layers) {
        findings.push_back({Severity::error, "LAYERS_MISMATCH", "",
                            fmt::format("{} layers, --layers says {}", shape[1], *options.layers),
                            layers_hint(shape[1], options)});
    }
    if (options.experts && shape[2] != *options.experts) {
        findings.push_back({Severity::error, "EXPERTS_MISMATCH", "",
                            fmt::format("{} experts, --experts says {}", shape[2], *options.experts),
                            experts_hint(shape[2], options)});
    }
    return findings;
}

}  // namespace eplb::check
