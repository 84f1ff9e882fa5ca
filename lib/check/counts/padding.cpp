// Padding, dummy and warm-up tokens all route alike, so the same experts get the same large count in
// every record slot. Real traffic scatters: a count of n varies by about sqrt(n) from slot to slot (seen in
// vllm-project/vllm PR 38128).
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"
#include "core/equal_slots.hpp"
#include "core/wide.hpp"

namespace eplb::check {
namespace {

// A spike that is quieter than chance: at least 4 times the row's mean, and its whole range over the record slots is
// within half a standard deviation of a Poisson count, range <= sqrt(max) / 2. Over 8 or more record slots chance alone
// does that to less than one cell in 10^4, and never to half of the layers.
bool constant_spike(const CountStatistics& statistics, int layer, int expert, std::int64_t mean_of_layer_cell) {
    const std::size_t cell = statistics.cell(layer, expert);
    const std::int64_t low = statistics.expert_minima[cell], high = statistics.expert_maxima[cell];
    if (statistics.expert_totals[cell] == 0 || low / 4 < mean_of_layer_cell || high < 16) return false;
    const int128 range = high - low;
    return 4 * range * range <= high;
}

}  // namespace

Findings check_padding(const CountContext& context) {
    constexpr int least_slots = 8;
    const CountStatistics& statistics = context.statistics;
    if (distinct(statistics.first_equal) < least_slots) return {};  // repeated record slots have a finding of their own

    const std::vector<int> layers = statistics.counted_layers();
    const auto slots = static_cast<std::int64_t>(statistics.filled.size());
    std::size_t spiked = 0;
    int first_layer = -1;
    std::vector<int> first_experts;
    std::int64_t first_count = 0;
    for (const int layer : layers) {
        const std::int64_t mean = statistics.layer_totals[static_cast<std::size_t>(layer)] / slots / statistics.experts;
        std::vector<int> experts;
        for (int expert = 0; expert < statistics.experts; ++expert) {
            if (constant_spike(statistics, layer, expert, mean)) experts.push_back(expert);
        }
        if (experts.empty()) continue;
        if (spiked++ == 0) {
            first_layer = layer;
            first_count = statistics.expert_maxima[statistics.cell(layer, experts.front())];
            first_experts = std::move(experts);
        }
    }
    if (2 * spiked < layers.size() || spiked == 0) return {};
    return {{Severity::warning, "SUSPECT_PADDING",
             fmt::format("layer {}, experts {}", first_layer, number_ranges(first_experts)),
             fmt::format("the same large count (about {}) in every record slot; such experts in {} of {} layers",
                         first_count, spiked, layers.size()),
             "padding, dummy or warm-up tokens may be counted: mask them, or record without graph padding"}};
}

}  // namespace eplb::check
