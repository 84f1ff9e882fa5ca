// A record slot that repeats another is stale data after a missed reset, or an export done twice.
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

Findings check_duplicate_slots(const CountContext& context) {
    const std::vector<int>& filled = context.statistics.filled;
    std::vector<int> repeated;
    int first_original = 0;
    for (std::size_t position = 0; position < filled.size(); ++position) {
        const auto first = static_cast<std::size_t>(context.statistics.first_equal[position]);
        if (first == position) continue;
        if (repeated.empty()) first_original = filled[first];
        repeated.push_back(filled[position]);
    }
    if (repeated.empty()) return {};
    return {{Severity::warning, "DUPLICATE_RECORD_SLOTS", fmt::format("record slots {}", number_ranges(repeated)),
             fmt::format("{} record slot{} an earlier one, the first is {} = {}", repeated.size(),
                         repeated.size() == 1 ? " repeats" : "s repeat", repeated.front(), first_original),
             "stale passes after a missed reset, or the same window exported twice: record again"}};
}

}  // namespace eplb::check
