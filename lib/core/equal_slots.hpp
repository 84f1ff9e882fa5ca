// Which record slots repeat others: a pass that stands in a file many times is one observation, not many.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/counts.hpp"

namespace eplb {

// Hash of a sequence of rows: four interleaved multiply-xor lanes. Not cryptographic, meant to tell record slots apart;
// who draws a conclusion from equal hashes compares the values too.
class RowHash {
  public:
    void add(std::span<const std::int64_t> row);
    std::uint64_t value() const;

  private:
    void mix(std::size_t lane, std::int64_t value) {
        const std::uint64_t mixed = (lanes_[lane] ^ static_cast<std::uint64_t>(value)) * 0xd1342543de82ef95u;
        lanes_[lane] = mixed ^ (mixed >> 32);
    }
    std::uint64_t lanes_[4] = {1, 2, 3, 4};
};

// For every position of `record_slots`, the first position whose record slot has the same counts in every layer: the
// own one where nothing earlier is equal. Throws as Counts::read_row does.
std::vector<int> first_equal(const Counts& counts, std::span<const int> record_slots);

// The same where the hash of each of `record_slots` is known: `hashes`, [record_slots.size()], by RowHash over the
// layers in order.
std::vector<int> first_equal(const Counts& counts, std::span<const int> record_slots,
                             std::span<const std::uint64_t> hashes);

// The same for the record slots 0..T-1 of gathered layers, [L] of [T, E] with one T.
std::vector<int> first_equal(std::span<const LayerCounts> layers);

// How many positions are the first of their kind.
int distinct(std::span<const int> first_equal);

}  // namespace eplb
