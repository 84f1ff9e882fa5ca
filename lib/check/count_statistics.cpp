#include "check/count_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "core/counts.hpp"
#include "core/equal_slots.hpp"
#include "core/error.hpp"

namespace eplb {
namespace {

constexpr std::int64_t largest_count = std::numeric_limits<std::int64_t>::max();

// Adds without wrapping; a sum above 2^63 - 1 is an Error at `where`.
void add_to(std::int64_t& sum, std::int64_t value, int record_slot, int layer) {
    if (__builtin_add_overflow(sum, value, &sum)) {
        throw Error(ErrorCode::input, fmt::format("record slot {}, layer {}", record_slot, layer),
                    "the sum of the counts is above 2^63 - 1");
    }
}

// Sum and largest value of a row. The sum is checked only where it could wrap.
std::int64_t row_sum(std::span<const std::int64_t> row, std::int64_t largest, int record_slot, int layer) {
    std::int64_t sum = 0;
    if (largest <= largest_count / static_cast<std::int64_t>(row.size())) {
        for (const std::int64_t value : row) sum += value;
    } else {
        for (const std::int64_t value : row) add_to(sum, value, record_slot, layer);
    }
    return sum;
}

}  // namespace

std::vector<int> CountStatistics::counted_layers() const {
    std::vector<int> result;
    for (int layer = 0; layer < layers; ++layer) {
        if (layer_totals[static_cast<std::size_t>(layer)] != 0) result.push_back(layer);
    }
    return result;
}

CountStatistics gather_statistics(const Tensor& tensor) {
    const Counts counts({tensor});
    CountStatistics result;
    result.record_slots = counts.record_slots();
    result.layers = counts.layers();
    result.experts = counts.experts();
    const auto slots = static_cast<std::size_t>(result.record_slots), layers = static_cast<std::size_t>(result.layers);
    const auto experts = static_cast<std::size_t>(result.experts);
    result.row_totals.resize(slots * layers);
    result.row_maxima.resize(slots * layers);
    result.slot_totals.resize(slots);
    result.slot_hashes.resize(slots);
    result.layer_totals.resize(layers);
    if (result.record_slots == 0) {  // whatever the other extents claim
        result.zero_layers.resize(layers);
        std::iota(result.zero_layers.begin(), result.zero_layers.end(), 0);
        return result;
    }
    result.expert_totals.resize(layers * experts);
    result.expert_minima.assign(layers * experts, largest_count);
    result.expert_maxima.resize(layers * experts);

    std::vector<std::int64_t> buffer(experts);
    for (int slot = 0; slot < result.record_slots; ++slot) {
        RowHash hash;
        std::int64_t slot_total = 0;
        for (int layer = 0; layer < result.layers; ++layer) {
            counts.read_row(slot, layer, buffer);
            hash.add(buffer);
            std::int64_t largest = 0;
            for (const std::int64_t value : buffer) largest = std::max(largest, value);
            if (largest == 0) continue;
            const std::int64_t sum = row_sum(buffer, largest, slot, layer);
            add_to(result.total, sum, slot, layer);  // bounds every other sum
            slot_total += sum;
            result.row_totals[result.row(slot, layer)] = sum;
            result.row_maxima[result.row(slot, layer)] = largest;
            result.layer_totals[static_cast<std::size_t>(layer)] += sum;
            const std::size_t first = result.cell(layer, 0);
            for (std::size_t expert = 0; expert < experts; ++expert) {
                const std::int64_t value = buffer[expert];
                result.expert_totals[first + expert] += value;
                result.expert_minima[first + expert] = std::min(result.expert_minima[first + expert], value);
                result.expert_maxima[first + expert] = std::max(result.expert_maxima[first + expert], value);
            }
        }
        result.slot_totals[static_cast<std::size_t>(slot)] = slot_total;
        result.slot_hashes[static_cast<std::size_t>(slot)] = hash.value();
        if (slot_total != 0) result.filled.push_back(slot);
    }
    std::vector<std::uint64_t> hashes;
    for (const int slot : result.filled) hashes.push_back(result.slot_hashes[static_cast<std::size_t>(slot)]);
    result.first_equal = first_equal(counts, result.filled, hashes);
    for (int layer = 0; layer < result.layers; ++layer) {
        if (result.layer_totals[static_cast<std::size_t>(layer)] == 0) result.zero_layers.push_back(layer);
    }
    return result;
}

}  // namespace eplb
