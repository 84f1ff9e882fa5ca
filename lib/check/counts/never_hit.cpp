// Experts without a count anywhere. How many replicas they get is decided by noise: one.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

Findings check_never_hit(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    std::size_t cells = 0, layers = 0, most = 0;
    int worst_layer = 0;
    std::vector<int> worst;
    for (const int layer : statistics.counted_layers()) {
        std::vector<int> never;
        for (int expert = 0; expert < statistics.experts; ++expert) {
            if (statistics.expert_totals[statistics.cell(layer, expert)] == 0) never.push_back(expert);
        }
        cells += never.size();
        layers += !never.empty();
        if (never.size() > most) {
            most = never.size();
            worst_layer = layer;
            worst = std::move(never);
        }
    }
    if (cells == 0) return {};
    return {{Severity::info, "NEVER_HIT_EXPERTS",
             fmt::format("layer {}, experts {}", worst_layer, number_ranges(worst, 4)),
             fmt::format("{} expert{} in {} layer{} never hit; most in layer {}: {}", cells, cells == 1 ? "" : "s",
                         layers, layers == 1 ? "" : "s", worst_layer, most),
             "they keep one replica; a longer or more varied window shows whether they are really cold"}};
}

}  // namespace eplb::check
