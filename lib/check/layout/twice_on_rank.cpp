// An expert twice on one rank. The loader fills one of the two slots, the other keeps whatever memory held (seen in
// deepseek-ai/EPLB issue 22).
#include <fmt/format.h>

#include "check/layout/checks.hpp"

namespace eplb::check {

std::vector<Finding> check_twice_on_rank(const LayoutContext& context) {
    if (!context.slots_per_rank) return {};
    const auto slots_per_rank = static_cast<std::size_t>(*context.slots_per_rank);
    std::vector<std::int64_t> last_rank(static_cast<std::size_t>(context.experts));
    std::size_t repeats = 0, layers = 0;
    std::string where, message;
    for (std::size_t layer = 0; layer < context.layout.rows.size(); ++layer) {
        std::fill(last_rank.begin(), last_rank.end(), -1);
        const std::size_t before = repeats;
        for (std::size_t slot = 0; slot < context.layout.rows[layer].size(); ++slot) {
            const std::int64_t id = context.layout.rows[layer][slot];
            if (id < 0 || id >= context.experts) continue;
            const auto rank = static_cast<std::int64_t>(slot / slots_per_rank);
            std::int64_t& last = last_rank[static_cast<std::size_t>(id)];
            if (last == rank && repeats++ == 0) {
                where = slot_place(context, layer, slot);
                message = fmt::format("expert {} is on rank {} already", id, rank);
            }
            last = rank;
        }
        layers += repeats > before;
    }
    if (repeats == 0) return {};
    return {{Severity::error, "EXPERT_TWICE_ON_RANK", where,
             fmt::format("{}; {} such slot{} in {} layer{}", message, repeats, repeats == 1 ? "" : "s", layers,
                         layers == 1 ? "" : "s"),
             "the second slot is wasted, and some servers leave its weights uninitialised: fit again"}};
}

}  // namespace eplb::check
