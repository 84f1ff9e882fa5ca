// Layers have different hot experts, so one row for all of them was not fitted to counts.
#include <fmt/format.h>

#include <algorithm>

#include "check/layout/checks.hpp"

namespace eplb::check {

std::vector<Finding> check_same_rows(const LayoutContext& context) {
    const auto& map = context.layout.rows;
    if (map.size() < 2 || std::any_of(map.begin(), map.end(), [&](const auto& row) { return row != map.front(); })) {
        return {};
    }
    return {{Severity::info, "SAME_ROW_IN_ALL_LAYERS", "", fmt::format("all {} layers have the same row", map.size()),
             "a trivial layout, or one row repeated: it does not follow the counts of each layer"}};
}

}  // namespace eplb::check
