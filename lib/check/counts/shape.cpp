// Three axes, layers and experts inside the limits of the project. No record slots is EMPTY_COUNTS.
#include <fmt/format.h>

#include <limits>

#include "check/counts/checks.hpp"
#include "core/geometry.hpp"

namespace eplb::check {
Findings check_shape(const CountContext& context) {
    const auto& shape = context.tensor.shape;
    if (shape.size() != 3) {
        return {{Severity::error, "BAD_SHAPE", "",
                 fmt::format("{} axes; counts are [layers, experts] or [record slots, layers, experts]", shape.size()),
                 "export the counts as one array of record slots"}};
    }
    if (shape[1] < 1 || shape[1] > max_layers || shape[2] < 1 || shape[2] > max_experts) {
        return {{Severity::error, "BAD_SHAPE", "",
                 fmt::format("{} layers x {} experts are outside 1..{} x 1..{}", shape[1], shape[2], max_layers,
                             max_experts),
                 "check the order of the axes: [record slots, layers, experts]"}};
    }
    if (shape[0] > std::numeric_limits<int>::max()) {
        return {{Severity::error, "BAD_SHAPE", "", fmt::format("{} record slots are above 2^31 - 1", shape[0]),
                 "check the order of the axes: [record slots, layers, experts]"}};
    }
    return {};
}

}  // namespace eplb::check
