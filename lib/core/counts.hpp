// Expert counts: [record slots, layers, experts], kept as the files hold them and widened to int64 a row at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace eplb {

// Counts of one or several files, concatenated along the record slots in command-line order. The tensors are 3-D, agree
// in layers and experts, and hold counts: integers, or floats that are whole numbers. Nothing is copied until a row is
// read, so memory stays that of the mapped files.
class Counts {
  public:
    Counts() = default;
    // Throws Error{input} when a tensor is not 3-D or the tensors disagree in layers or experts.
    explicit Counts(std::vector<Tensor> tensors);

    int record_slots() const { return record_slots_; }
    int layers() const { return layers_; }
    int experts() const { return experts_; }

    // Copies the `experts()` counts of one record slot and layer, widened to int64. Throws Error{input} with the
    // coordinate of the first value that is no count (negative, fractional, NaN, above 2^63 - 1).
    void read_row(int record_slot, int layer, std::span<std::int64_t> row) const;

    // Total count of every record slot, all layers and experts. Throws as read_row does, and on int64 overflow.
    std::vector<std::int64_t> slot_totals() const;

  private:
    std::vector<Tensor> tensors_;
    std::vector<int> first_slot_;  // first record slot of each tensor
    int record_slots_ = 0, layers_ = 0, experts_ = 0;
};

// The counts of one layer over chosen record slots, contiguous [slots, experts]: what a fit or a score works on.
struct LayerCounts {
    int slots = 0, experts = 0;
    std::vector<std::int64_t> values;

    std::span<const std::int64_t> row(int slot) const {
        return {values.data() + static_cast<std::size_t>(slot) * static_cast<std::size_t>(experts),
                static_cast<std::size_t>(experts)};
    }
    std::int64_t slot_total(int slot) const;  // sum of one row
    std::vector<std::int64_t> expert_totals()
        const;  // [experts], summed over the slots; throws Error{input} on overflow
};

LayerCounts gather(const Counts& counts, int layer, std::span<const int> record_slots);

// A contiguous int64 tensor [record slots, layers, experts] that owns its values.
Tensor make_count_tensor(std::vector<std::int64_t> values, int record_slots, int layers, int experts);

}  // namespace eplb
