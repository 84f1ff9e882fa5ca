#include "core/equal_slots.hpp"

#include <algorithm>
#include <unordered_map>

namespace eplb {
namespace {

// `same(a, b)` compares the values at two positions. Different counts may share a hash, so each hash keeps every first
// of its kind.
template <typename Same>
std::vector<int> first_of_each(std::span<const std::uint64_t> hashes, const Same& same) {
    std::unordered_map<std::uint64_t, std::vector<int>> firsts;
    std::vector<int> result;
    for (std::size_t index = 0; index < hashes.size(); ++index) {
        const auto position = static_cast<int>(index);
        std::vector<int>& candidates = firsts[hashes[index]];
        const auto found = std::find_if(candidates.begin(), candidates.end(),
                                        [&](int candidate) { return same(candidate, position); });
        result.push_back(found == candidates.end() ? position : *found);
        if (found == candidates.end()) candidates.push_back(position);
    }
    return result;
}

}  // namespace

void RowHash::add(std::span<const std::int64_t> row) {
    std::size_t index = 0;
    for (; index + 4 <= row.size(); index += 4) {
        for (std::size_t lane = 0; lane < 4; ++lane) mix(lane, row[index + lane]);
    }
    for (; index < row.size(); ++index) mix(0, row[index]);
}

std::uint64_t RowHash::value() const {
    std::uint64_t hash = 0;
    for (const std::uint64_t lane : lanes_) hash = (hash ^ lane ^ (lane >> 29)) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
}

std::vector<int> first_equal(const Counts& counts, std::span<const int> record_slots) {
    std::vector<std::uint64_t> hashes;
    std::vector<std::int64_t> row(static_cast<std::size_t>(counts.experts()));
    for (const int slot : record_slots) {
        RowHash hash;
        for (int layer = 0; layer < counts.layers(); ++layer) {
            counts.read_row(slot, layer, row);
            hash.add(row);
        }
        hashes.push_back(hash.value());
    }
    return first_equal(counts, record_slots, hashes);
}

std::vector<int> first_equal(const Counts& counts, std::span<const int> record_slots,
                             std::span<const std::uint64_t> hashes) {
    std::vector<std::int64_t> row_a(static_cast<std::size_t>(counts.experts())), row_b(row_a.size());
    return first_of_each(hashes, [&](int a, int b) {
        for (int layer = 0; layer < counts.layers(); ++layer) {
            counts.read_row(record_slots[static_cast<std::size_t>(a)], layer, row_a);
            counts.read_row(record_slots[static_cast<std::size_t>(b)], layer, row_b);
            if (row_a != row_b) return false;
        }
        return true;
    });
}

std::vector<int> first_equal(std::span<const LayerCounts> layers) {
    std::vector<std::uint64_t> hashes;
    for (int slot = 0; slot < (layers.empty() ? 0 : layers.front().slots); ++slot) {
        RowHash hash;
        for (const LayerCounts& counts : layers) hash.add(counts.row(slot));
        hashes.push_back(hash.value());
    }
    return first_of_each(hashes, [&](int a, int b) {
        return std::all_of(layers.begin(), layers.end(),
                           [&](const LayerCounts& counts) { return std::ranges::equal(counts.row(a), counts.row(b)); });
    });
}

int distinct(std::span<const int> first_equal) {
    int firsts = 0;
    for (std::size_t position = 0; position < first_equal.size(); ++position) {
        firsts += first_equal[position] == static_cast<int>(position);
    }
    return firsts;
}

}  // namespace eplb
