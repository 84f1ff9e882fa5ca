// The tensors of one layer, slot by slot, and what is done to them: through dispatcher calls, so that the same code
// runs on an NPU or any other device; tensors of the CPU are copied by the C library. Nothing here reads or writes
// device memory from the host, except slot_digests, which copies one slot at a time to the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace eplb {

// One named tensor of a layer (w13_weight, w2_weight_scale, ...) as a list of views, one a slot or one an expert.
struct TensorFamily {
    std::string name;
    std::vector<at::Tensor> slots;
};

// How the flat tensor lists of the operators are to be read. Family i owns the next parts[i] tensors: one tensor whose
// first axis is the slot ("stacked"), or one tensor a slot ("list"). The families named in `raw` are in a private
// format (FRACTAL_NZ): their slots are ranges of storage bytes instead of views.
struct FamilyLists {
    const std::vector<std::string>& names;
    std::span<const std::int64_t> parts;
    const std::vector<at::Tensor>& tensors;
    const std::vector<std::string>& raw;
};

// `slots` < 0 takes the number of slots from the tensors. Throws Error{input} naming the tensor when a list and its
// parts disagree, when slots overlap in memory, and when a private-format storage does not divide by the slots.
std::vector<TensorFamily> split_families(const FamilyLists& lists, std::int64_t slots);

// Slot s gets a copy of expert row[s], in every family or in none: everything is checked before the first write.
void install(const std::vector<TensorFamily>& slots, const std::vector<TensorFamily>& experts,
             std::span<const int> row);

// Slot s gets what slot source[s] held; -1 leaves it. One spare slot a family is allocated at a time, and only when
// the sources contain a cycle.
void permute_slots(const std::vector<TensorFamily>& slots, std::span<const int> source);

// SHA-256 of the bytes of every slot in row-major order: int64 [families, slots, 4] on the CPU.
at::Tensor slot_digests(const std::vector<TensorFamily>& families);

// Logical ids -> physical slots: ids of any integer type and shape, `table` [E] of slots. -1 stays -1; the type of the
// ids is kept. An id outside -1..E-1 is an error of the device's index_select.
at::Tensor remap(const at::Tensor& ids, const at::Tensor& table);

}  // namespace eplb
