// The total against the load that was sent. A whole multiple points at counts added more than once.
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_expected_total(const CountContext& context) {
    if (!context.options.expect_total || !context.alone) return {};  // summed across files
    return unexpected_total(context.statistics.total, *context.options.expect_total);
}

Findings unexpected_total(std::int64_t total, std::int64_t expected) {
    if (total == expected) return {};
    std::string hint = "requests failed or were added, or the recorder ran for another time than the load";
    if (expected > 0 && total % expected == 0) {
        hint = fmt::format("{} times the expected total: every rank (DP or TP) may have counted the same tokens",
                           total / expected);
    } else if (total > 0 && expected % total == 0) {
        hint = fmt::format("1/{} of the expected total: perhaps one rank's share, or one layer's total was expected",
                           expected / total);
    }
    return {{Severity::warning, "UNEXPECTED_TOTAL", "",
             fmt::format("the counts sum to {}, --expect-total says {}", total, expected), hint}};
}

}  // namespace eplb::check
