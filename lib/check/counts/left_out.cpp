// Rows that the user left out: said, so that nobody takes their zeros for counts.
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

Findings check_left_out(const CountContext& context) {
    const LeftOut& rows = context.left_out;
    if (!rows.any()) return {};
    std::string where, message;
    const auto add = [&](const std::vector<int>& numbers, const char* what, std::int64_t count) {
        if (numbers.empty()) return;
        where += fmt::format("{}{}s {}", where.empty() ? "" : "; ", what, number_ranges(numbers));
        message += fmt::format("{}{} of {} {}s", message.empty() ? "" : " and ", numbers.size(), count, what);
    };
    add(rows.slots, "record slot", context.tensor.shape[0]);
    add(rows.layers, "layer", context.tensor.shape[1]);
    return {{Severity::info, "LEFT_OUT", where, message + " left out, as the flags say: they count as zero",
             "the others keep their numbers"}};
}

}  // namespace eplb::check
