// P = E + redundant, and P divides by the ranks.
#include <fmt/format.h>

#include "check/layout/checks.hpp"

namespace eplb::check {

std::vector<Finding> check_layout_budget(const LayoutContext& context) {
    if (!context.width) return {};
    const int slots = *context.width, ranks = context.expectation.ranks;
    std::vector<Finding> findings;
    if (!context.slots_per_rank) {
        findings.push_back({Severity::error, "SLOTS_NOT_DIVISIBLE", "",
                            fmt::format("{} physical slots do not divide by {} ranks", slots, ranks),
                            "give the EP size that the layout was made for, or fit again for this one"});
    }
    if (slots < context.experts) {
        findings.push_back({Severity::error, "TOO_FEW_SLOTS", "",
                            fmt::format("{} physical slots cannot hold {} experts", slots, context.experts),
                            "a layout has E + redundant slots; is it another model's?"});
    } else if (context.expectation.redundant_total && slots - context.experts != *context.expectation.redundant_total) {
        findings.push_back(
            {Severity::error, "REDUNDANCY_MISMATCH", "",
             fmt::format("{} physical slots are {} experts + {} redundant, --redundant-total says {}", slots,
                         context.experts, slots - context.experts, *context.expectation.redundant_total),
             "the server allocates from its flag, not from the file: set the flag to what the layout has"});
    }
    return findings;
}

}  // namespace eplb::check
