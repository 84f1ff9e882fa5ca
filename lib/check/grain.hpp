// In what steps do the counts of a file come? Counts that passed through a short float type, or that were padded to
// blocks, show it in every value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/counts.hpp"
#include "core/tensor.hpp"

namespace eplb {

// A float type holds every whole number up to 2^bits; above, it rounds to a multiple of a power of two.
struct FloatPrecision {
    DType dtype;
    int bits;

    std::int64_t exact() const { return std::int64_t{1} << bits; }  // the largest number below which none is lost
    std::int64_t step_at(std::int64_t value) const;                 // between neighbours there, at least 1
};

// Of bfloat16, float16 and float32; null for every other type.
const FloatPrecision* precision_of(DType dtype);

// The greatest common divisor of all values; 0 when all are zero.
std::int64_t common_divisor(const Counts& counts);

// The shortest float type that all values fit without rounding although at least 32 of them are above its exact range:
// they went through it. By chance one value in two would fit at most. Of values with a common divisor the quotients are
// looked at: multiples of 128 are padding, not rounding. `largest`: of the values.
const FloatPrecision* passed_through(const Counts& counts, std::int64_t largest);

}  // namespace eplb
