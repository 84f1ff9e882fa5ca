// 0 <= id < E. Below zero, Python credits the id to expert E + id without a word.
#include <fmt/format.h>

#include "check/layout/checks.hpp"
#include "core/geometry.hpp"

namespace eplb::check {

std::vector<Finding> check_expert_ids(const LayoutContext& context) {
    struct Tally {
        std::size_t ids = 0;
        std::string where;
        std::int64_t first = 0;
    } negative, above;
    for (std::size_t layer = 0; layer < context.layout.rows.size(); ++layer) {
        for (std::size_t slot = 0; slot < context.layout.rows[layer].size(); ++slot) {
            const std::int64_t id = context.layout.rows[layer][slot];
            if (id == no_number || (id >= 0 && id < context.experts)) continue;
            Tally& tally = id < 0 ? negative : above;
            if (tally.ids++ == 0) {
                tally.where = slot_place(context, layer, slot);
                tally.first = id;
            }
        }
    }
    std::vector<Finding> findings;
    const auto add = [&](const Tally& tally, const char* code, std::string hint) {
        if (tally.ids == 0) return;
        findings.push_back({Severity::error, code, tally.where,
                            fmt::format("expert {} is outside 0..{} ({} such id{})", tally.first, context.experts - 1,
                                        tally.ids, tally.ids == 1 ? "" : "s"),
                            std::move(hint)});
    };
    add(negative, "NEGATIVE_EXPERT",
        fmt::format("a server would silently take {} as expert {}", negative.first, context.experts + negative.first));
    add(above, "EXPERT_OUT_OF_RANGE", "another model's layout, or ids of shared experts");
    if (!context.expectation.experts && !context.expectation.redundant_total && context.experts > 0) {
        findings.push_back({Severity::info, "EXPERTS_NOT_STATED", "",
                            fmt::format("{} experts, taken from the largest id", context.experts),
                            "say --experts: an expert whose id is above all others cannot be missed otherwise"});
    }
    return findings;
}

}  // namespace eplb::check
