// One pass over a count tensor: the sums, extremes and hashes that the checks look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"

namespace eplb {

// "Row" means the experts of one record slot and layer. Sums are exact.
struct CountStatistics {
    int record_slots = 0, layers = 0, experts = 0;
    std::int64_t total = 0;
    std::vector<std::int64_t> row_totals, row_maxima;                       // [record slots, layers]
    std::vector<std::int64_t> slot_totals;                                  // [record slots]
    std::vector<std::int64_t> layer_totals;                                 // [layers]
    std::vector<std::int64_t> expert_totals, expert_minima, expert_maxima;  // [layers, experts]; over non-zero rows
    std::vector<std::uint64_t> slot_hashes;                                 // [record slots], of the values
    std::vector<int> filled;       // record slots with a non-zero total, ascending
    std::vector<int> first_equal;  // [filled]: the position there of the first record slot with the same counts
    std::vector<int> zero_layers;  // layers with a zero total, ascending

    std::size_t row(int record_slot, int layer) const {
        return static_cast<std::size_t>(record_slot) * static_cast<std::size_t>(layers) +
               static_cast<std::size_t>(layer);
    }
    std::size_t cell(int layer, int expert) const {
        return static_cast<std::size_t>(layer) * static_cast<std::size_t>(experts) + static_cast<std::size_t>(expert);
    }
    // Layers with a non-zero total, ascending.
    std::vector<int> counted_layers() const;
};

// Throws Error{input} with the coordinate of the first value that is no count, and when the sum is above 2^63 - 1.
CountStatistics gather_statistics(const Tensor& tensor);

}  // namespace eplb
