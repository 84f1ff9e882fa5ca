#include "fit/order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>

namespace eplb {
namespace {

constexpr std::size_t largest_for_radix = 2048;  // above it the last, quadratic step could show

// Floats >= 0 order as their bits do. The bits, counted down from the largest and cut to 16, are sorted in two passes
// of one byte: that leaves few values out of order, all of them neighbours.
void radix_sort_nearly(std::span<const double> values, std::vector<int>& order) {
    const std::size_t n = values.size();
    std::vector<std::uint32_t> bits(n);
    std::uint32_t largest = 0, smallest = ~0u;
    for (std::size_t i = 0; i < n; ++i) {
        bits[i] = std::bit_cast<std::uint32_t>(static_cast<float>(values[i]));
        largest = std::max(largest, bits[i]);
        smallest = std::min(smallest, bits[i]);
    }
    const int shift = std::max(0, static_cast<int>(std::bit_width(largest - smallest)) - 16);
    std::array<int, 256> low{}, high{};
    for (std::uint32_t& b : bits) {
        b = (largest - b) >> shift;
        ++low[b & 255];
        ++high[b >> 8];
    }
    for (int digit = 0, low_sum = 0, high_sum = 0; digit < 256; ++digit) {
        low_sum += std::exchange(low[static_cast<std::size_t>(digit)], low_sum);
        high_sum += std::exchange(high[static_cast<std::size_t>(digit)], high_sum);
    }
    std::vector<int> by_low(n);
    for (std::size_t i = 0; i < n; ++i) by_low[static_cast<std::size_t>(low[bits[i] & 255]++)] = static_cast<int>(i);
    for (const int i : by_low) {
        order[static_cast<std::size_t>(high[bits[static_cast<std::size_t>(i)] >> 8]++)] = i;
    }
}

}  // namespace

std::vector<int> descending_order(std::span<const double> values) {
    std::vector<int> order(values.size());
    const auto before = [&](int a, int b) {
        const double x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    };
    if (values.size() > largest_for_radix) {
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), before);
        return order;
    }
    radix_sort_nearly(values, order);
    for (std::size_t i = 1; i < order.size(); ++i) {  // insertion sort
        const int moved = order[i];
        std::size_t to = i;
        for (; to > 0 && before(moved, order[to - 1]); --to) order[to] = order[to - 1];
        order[to] = moved;
    }
    return order;
}

}  // namespace eplb
