// The number of redundant slots cannot be chosen freely: E + redundant divides by the ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check/counts/checks.hpp"
#include "core/geometry.hpp"

namespace eplb::check {

Findings check_ranks(const CountContext& context) {
    if (!context.options.ranks) return {};
    const int ranks = *context.options.ranks, experts = static_cast<int>(context.tensor.shape[2]);
    return {{Severity::info, "REDUNDANCY_FOR_RANKS", "",
             fmt::format("{} experts on {} ranks (--ranks): the smallest total redundancies that work are {}", experts,
                         ranks, fmt::join(nearest_redundant_totals(experts, ranks, 0), " and ")),
             "give one to eplb-fit --redundant-total; how many ranks counted is --recorded-ranks"}};
}

}  // namespace eplb::check
