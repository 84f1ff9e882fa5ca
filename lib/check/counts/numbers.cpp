// Counts are whole numbers, none negative. Every kind of wrong value is one finding with the first place and the number
// of such values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "check/counts/checks.hpp"
#include "check/grain.hpp"
#include "check/wording.hpp"
#include "core/error.hpp"

namespace eplb::check {
namespace {

constexpr double exact_limit = 9007199254740992.0;  // 2^53: above it a double cannot hold every whole number

enum class Fault { none, negative, nan, infinite, fractional, too_large };
constexpr std::size_t fault_kinds = 6;

Fault fault_of(double value) {
    if (std::isnan(value)) return Fault::nan;
    if (std::isinf(value)) return Fault::infinite;
    if (value < 0) return Fault::negative;
    if (value > exact_limit) return Fault::too_large;
    return value == std::floor(value) ? Fault::none : Fault::fractional;
}

struct Tally {
    std::int64_t values = 0;
    std::string where, first;
};

// A negative integer is the low half of a count that ran over: 2^32 more in an int32 buffer.
std::string negative_hint(const Tensor& tensor, std::int64_t value) {
    const int bits = static_cast<int>(size_of(tensor.dtype)) * 8;
    if (is_floating(tensor.dtype) || bits == 64) {
        return "counts never shrink: cumulative data differenced in the wrong order, or a counter that was reset";
    }
    return fmt::format(
        "a wrapped {} counter would have been {}; else cumulative data differenced in the wrong order. Record a "
        "shorter window",
        name_of(tensor.dtype), value + (std::int64_t{1} << bits));
}

Finding finding_of(Fault fault, const Tally& tally, const Tensor& tensor, std::int64_t first_negative) {
    const std::string found =
        fmt::format("{} is no count ({} such value{})", tally.first, tally.values, tally.values == 1 ? "" : "s");
    switch (fault) {
        case Fault::negative:
            return {Severity::error, "NEGATIVE_COUNT", tally.where, found, negative_hint(tensor, first_negative)};
        case Fault::nan:
            return {Severity::error, "NAN_COUNT", tally.where, found,
                    "an export that divided by zero or left memory uninitialised; export the raw integer counts"};
        case Fault::infinite:
            return {Severity::error, "INFINITE_COUNT", tally.where, found,
                    "a float type that cannot hold the counts; export the raw integer counts"};
        case Fault::fractional:
            return {Severity::error, "FRACTIONAL_COUNT", tally.where, found,
                    "averages or shares cannot be fitted; export the raw integer counts"};
        case Fault::too_large:
        case Fault::none:
            break;
    }
    return {Severity::error, "COUNT_TOO_LARGE", tally.where, found,
            is_floating(tensor.dtype) ? "above 2^53 a float has lost whole numbers; export integer counts"
                                      : "above 2^63 - 1; this is no count of tokens"};
}

}  // namespace

Findings check_numbers(const CountContext& context) {
    const Tensor& tensor = context.tensor;
    if (tensor.dtype == DType::boolean) {
        return {{Severity::error, "BOOLEAN_COUNTS", "", "the values are true and false, not counts",
                 "this may be a mask; export logical_count"}};
    }
    if (!context.refused) {
        if (!is_floating(tensor.dtype)) return {};
        const FloatPrecision* precision = precision_of(tensor.dtype);
        const auto& maxima = context.statistics.row_maxima;
        const bool exact = !precision || std::all_of(maxima.begin(), maxima.end(),
                                                     [&](std::int64_t value) { return value <= precision->exact(); });
        return {{Severity::info, "FLOAT_COUNTS", "",
                 fmt::format("whole numbers stored as {}{}", name_of(tensor.dtype), exact ? "; read exactly" : ""),
                 ""}};
    }
    Tensor integers = tensor;  // 2^63 and above read as negative instead of ending the scan
    if (tensor.dtype == DType::uint64) integers.dtype = DType::int64;
    const bool floating = is_floating(tensor.dtype);

    std::array<Tally, fault_kinds> tallies;
    std::int64_t first_negative = 0;
    for (std::int64_t slot = 0; slot < tensor.shape[0]; ++slot) {
        for (std::int64_t layer = 0; layer < tensor.shape[1]; ++layer) {
            for (std::int64_t expert = 0; expert < tensor.shape[2]; ++expert) {
                const std::int64_t index =
                    slot * tensor.strides[0] + layer * tensor.strides[1] + expert * tensor.strides[2];
                Fault fault = Fault::none;
                std::int64_t integer = 0;
                double number = 0;
                if (floating) {
                    number = floating_at(tensor, index);
                    fault = fault_of(number);
                } else {
                    integer = integer_at(integers, index);
                    if (integer < 0) fault = tensor.dtype == DType::uint64 ? Fault::too_large : Fault::negative;
                }
                if (fault == Fault::none) continue;
                Tally& tally = tallies[static_cast<std::size_t>(fault)];
                if (tally.values++ != 0) continue;
                tally.where = cell_place(static_cast<int>(slot), static_cast<int>(layer), static_cast<int>(expert));
                tally.first = floating                        ? fmt::format("{}", number)
                              : tensor.dtype == DType::uint64 ? fmt::format("{}", static_cast<std::uint64_t>(integer))
                                                              : fmt::format("{}", integer);
                if (fault == Fault::negative) first_negative = integer;
            }
        }
    }
    Findings findings;
    for (std::size_t fault = 1; fault < fault_kinds; ++fault) {
        if (tallies[fault].values == 0) continue;
        findings.push_back(finding_of(static_cast<Fault>(fault), tallies[fault], tensor, first_negative));
    }
    if (findings.empty()) {
        findings.push_back({Severity::error, "SUM_TOO_LARGE", context.refused->where(), context.refused->message(),
                            "these are no counts of tokens; look at the type and the byte order of the file"});
    }
    return findings;
}

}  // namespace eplb::check
