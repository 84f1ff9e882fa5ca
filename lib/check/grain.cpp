#include "check/grain.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

namespace eplb {
namespace {

constexpr std::array<FloatPrecision, 3> precisions{
    {{DType::bfloat16, 8},
     {DType::float16, 11},
     {DType::float32, 24}}};  // 7, 10 and 23 stored bits, and the leading one

int width(std::int64_t value) {
    return std::bit_width(static_cast<std::uint64_t>(value));
}

// Calls visit(value) for every non-zero value until it returns false.
template <typename Visit>
void for_each_value(const Counts& counts, const Visit& visit) {
    std::vector<std::int64_t> row(static_cast<std::size_t>(counts.experts()));
    for (int slot = 0; slot < counts.record_slots(); ++slot) {
        for (int layer = 0; layer < counts.layers(); ++layer) {
            counts.read_row(slot, layer, row);
            for (const std::int64_t value : row) {
                if (value != 0 && !visit(value)) return;
            }
        }
    }
}

}  // namespace

std::int64_t FloatPrecision::step_at(std::int64_t value) const {
    return std::int64_t{1} << std::max(0, width(value) - bits);
}

const FloatPrecision* precision_of(DType dtype) {
    const auto found = std::find_if(precisions.begin(), precisions.end(),
                                    [&](const FloatPrecision& precision) { return precision.dtype == dtype; });
    return found == precisions.end() ? nullptr : &*found;
}

std::int64_t common_divisor(const Counts& counts) {
    std::int64_t divisor = 0;
    for_each_value(counts, [&](std::int64_t value) {
        divisor = std::gcd(divisor, value);
        return divisor != 1;
    });
    return divisor;
}

const FloatPrecision* passed_through(const Counts& counts, std::int64_t largest) {
    constexpr int least_rounded = 32;
    if (largest <= precisions.front().exact()) return nullptr;
    const std::int64_t divisor = common_divisor(counts);
    std::array<int, precisions.size()> above{};
    std::array<bool, precisions.size()> fits;  // false as well where no value is above the exact range
    for (std::size_t index = 0; index < precisions.size(); ++index) {
        fits[index] = largest / divisor > precisions[index].exact();
    }
    for_each_value(counts, [&](std::int64_t value) {
        const std::int64_t quotient = value / divisor;
        const int significant = width(quotient) - std::countr_zero(static_cast<std::uint64_t>(quotient));
        bool any = false;
        for (std::size_t index = 0; index < precisions.size(); ++index) {
            fits[index] = fits[index] && significant <= precisions[index].bits;
            above[index] += quotient > precisions[index].exact() && above[index] < least_rounded;
            any = any || fits[index];
        }
        return any;
    });
    for (std::size_t index = 0; index < precisions.size(); ++index) {
        if (fits[index] && above[index] == least_rounded) return &precisions[index];
    }
    return nullptr;
}

}  // namespace eplb
