// A record slot that repeats another is stale data after a missed reset, or an export done twice.
#include <fmt/format.h>

#include <optional>
#include <unordered_map>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"
#include "core/counts.hpp"

namespace eplb::check {
namespace {

bool same_values(const Counts& counts, int a, int b) {
    std::vector<std::int64_t> row_a(static_cast<std::size_t>(counts.experts())), row_b(row_a.size());
    for (int layer = 0; layer < counts.layers(); ++layer) {
        counts.read_row(a, layer, row_a);
        counts.read_row(b, layer, row_b);
        if (row_a != row_b) return false;
    }
    return true;
}

}  // namespace

Findings check_duplicate_slots(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const Counts counts({context.tensor});
    std::unordered_map<std::uint64_t, int> first_with;
    std::vector<int> repeated;
    int first_original = 0;
    for (const int slot : statistics.filled) {
        const auto [entry, inserted] = first_with.emplace(statistics.slot_hashes[static_cast<std::size_t>(slot)], slot);
        if (inserted || !same_values(counts, entry->second, slot)) continue;
        if (repeated.empty()) first_original = entry->second;
        repeated.push_back(slot);
    }
    if (repeated.empty()) return {};
    return {{Severity::warning, "DUPLICATE_RECORD_SLOTS", fmt::format("record slots {}", number_ranges(repeated)),
             fmt::format("{} record slot{} an earlier one, the first is {} = {}", repeated.size(),
                         repeated.size() == 1 ? " repeats" : "s repeat", repeated.front(), first_original),
             "stale passes after a missed reset, or the same window exported twice: record again"}};
}

}  // namespace eplb::check
