// Do the record slots come from one load? Compared are the expert shares of the first and the second half
// of the filled record slots; every other slot against the rest shows how much of that is sampling noise.
#include <fmt/format.h>

#include "check/counts/checks.hpp"
#include "check/variation.hpp"
#include "core/equal_slots.hpp"
#include "core/record_split.hpp"

namespace eplb::check {
Findings check_drift(const CountContext& context) {
    // A tenth of the traffic, and three times the noise: the loads of different tasks differ by far more (0.27 at a
    // noise of 0.02 for four tasks in a row), the topics of one load by less (0.08 at 0.02 to 0.04 in made-up counts).
    constexpr double least = 0.10, times_noise = 3;
    constexpr int least_slots = 8;
    const std::vector<int>&filled = context.statistics.filled, &equal = context.statistics.first_equal;
    if (distinct(equal) < least_slots) return {};
    const auto between_parts = [&](Holdout holdout) {
        return median_variation(context.tensor, context.statistics, split_record_slots(filled, holdout, equal));
    };
    const double halves = between_parts(Holdout::halves), noise = between_parts(Holdout::interleave);
    if (halves < least || halves < times_noise * noise) return {};
    return {{Severity::warning, "HALVES_DIFFER", "",
             fmt::format("in the median layer {:.1f} % of the traffic sits on other experts in the second half of the "
                         "record slots than in the first (sampling noise: {:.1f} %)",
                         100 * halves, 100 * noise),
             "the load changed while recording: judge with --holdout halves, or record each load by itself"}};
}

}  // namespace eplb::check
