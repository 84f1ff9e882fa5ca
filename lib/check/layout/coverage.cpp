// Every expert in every row, dense layers too: the inverse map is built for all rows.
#include <fmt/format.h>

#include "check/layout/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

std::vector<Finding> check_coverage(const LayoutContext& context) {
    std::size_t total = 0, layers = 0, first_layer = 0;
    std::vector<int> first_missing;
    for (std::size_t layer = 0; layer < context.layout.rows.size(); ++layer) {
        std::vector<bool> present(static_cast<std::size_t>(context.experts));
        for (const std::int64_t id : context.layout.rows[layer]) {
            if (id >= 0 && id < context.experts) present[static_cast<std::size_t>(id)] = true;
        }
        std::vector<int> missing;
        for (int expert = 0; expert < context.experts; ++expert) {
            if (!present[static_cast<std::size_t>(expert)]) missing.push_back(expert);
        }
        if (missing.empty()) continue;
        total += missing.size();
        if (layers++ == 0) {
            first_layer = layer;
            first_missing = std::move(missing);
        }
    }
    if (total == 0) return {};
    return {{Severity::error, "EXPERT_MISSING",
             fmt::format("layer {}, expert{} {}", first_layer, first_missing.size() == 1 ? "" : "s",
                         number_ranges(first_missing)),
             fmt::format("no physical slot holds {}; {} expert{} missing in {} layer{}",
                         first_missing.size() == 1 ? "it" : "them", total, total == 1 ? "" : "s", layers,
                         layers == 1 ? "" : "s"),
             "tokens for such an expert have nowhere to go: division by zero at start, or undefined slots"}};
}

}  // namespace eplb::check
