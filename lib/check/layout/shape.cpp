// A rectangle with a row for every layer.
#include <fmt/format.h>

#include "check/layout/checks.hpp"
#include "core/geometry.hpp"

namespace eplb::check {

std::vector<Finding> check_layout_shape(const LayoutContext& context) {
    const auto& map = context.layout.rows;
    std::vector<Finding> findings;
    if (!context.width) {
        std::size_t layer = 0;
        while (layer < map.size() && !map[layer].empty() && map[layer].size() == map.front().size()) ++layer;
        findings.push_back(
            {Severity::error, "NOT_RECTANGULAR", map.empty() ? std::string() : fmt::format("layer {}", layer),
             map.empty() ? std::string("no row at all")
                         : fmt::format("{} physical slots, layer 0 has {}", map[layer].size(), map.front().size()),
             "every layer needs the same number of physical slots"});
    }
    if (map.size() > max_layers || (context.width && *context.width > max_physical_slots)) {
        findings.push_back({Severity::error, "LAYOUT_TOO_LARGE", "",
                            fmt::format("{} layers x {} physical slots are above {} x {}", map.size(),
                                        map.empty() ? 0 : map.front().size(), max_layers, max_physical_slots),
                            "this is no layout of one model"});
    }
    const auto layers = context.expectation.layers;
    if (layers && map.size() != static_cast<std::size_t>(*layers)) {
        const bool short_of_rows = map.size() < static_cast<std::size_t>(*layers);
        findings.push_back(
            {Severity::error, "LAYERS_MISMATCH", "", fmt::format("{} rows, --layers says {}", map.size(), *layers),
             short_of_rows ? "SGLang reads row i for hidden layer i, dense layers too: missing rows shift "
                             "the others or end the server"
                           : "rows beyond the model's layers are ignored; is it the right model?"});
    }
    return findings;
}

}  // namespace eplb::check
