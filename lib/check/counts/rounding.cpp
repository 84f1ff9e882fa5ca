// Counts in a short float type are exact up to 2^8 (bfloat16), 2^11 (float16) or 2^24 (float32), and rounded above. A
// later type does not bring back what was lost.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "check/grain.hpp"
#include "core/counts.hpp"

namespace eplb::check {

Findings check_rounding(const CountContext& context) {
    const auto& maxima = context.statistics.row_maxima;
    const std::int64_t largest = *std::max_element(maxima.begin(), maxima.end());
    const FloatPrecision* stored = precision_of(context.tensor.dtype);
    const bool rounded = stored && largest > stored->exact();
    const FloatPrecision* precision = rounded ? stored : passed_through(Counts({context.tensor}), largest);
    if (!precision) return {};
    const std::string how =
        rounded ? fmt::format("counts up to {} are stored as {}, which", largest, name_of(precision->dtype))
                : fmt::format("no count has more than {} significant bits: they passed through {}, which",
                              precision->bits, name_of(precision->dtype));
    return {{Severity::warning, "ROUNDED_COUNTS", "",
             fmt::format("{} holds every whole number only up to {}; near {} they are rounded to steps of {}", how,
                         precision->exact(), largest, precision->step_at(largest)),
             "export integers, before anything turns them into floats; totals and --top-k cannot be checked to the "
             "last count"}};
}

}  // namespace eplb::check
