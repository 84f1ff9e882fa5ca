// The recorder's operators. The three that run inside a forward pass use dispatcher calls only: no host
// synchronisation, no new addresses, so that a captured graph replays them; the two that run at a dump work on host
// memory.
//
// Window of one rank (docs/recorder.md):
//   ring         [B, L, P] int32 or int64   physical counts of the last B passes
//   meta         [B, 2]    int32            tokens of the pass, phase + 256 * layout generation
//   state        [5]       int64            passes recorded so far, recording (0/1), phase, layout generation,
//                                           passes with a count that the ring's type does not hold
//   pass_counts  [L, P]    int64            counts of the pass under way
//   pass_tokens  [L]       int64            tokens seen by each layer in the pass under way
// A pass with sequence number s lies in ring slot s mod B.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using at::Tensor;

void require(bool condition, const std::string& message) {
    TORCH_CHECK_VALUE(condition, message);
}

void record_topk_(Tensor& pass_counts, Tensor& pass_tokens, int64_t layer, const Tensor& physical_ids,
                  const c10::optional<Tensor>& row_mask) {
    require(physical_ids.dim() == 2, "record_topk_: physical_ids must be [tokens, k]");
    require(layer >= 0 && layer < pass_counts.size(0), "record_topk_: layer " + std::to_string(layer) +
                                                           " is outside 0.." + std::to_string(pass_counts.size(0) - 1));
    require(at::isIntegralType(physical_ids.scalar_type(), false), "record_topk_: physical_ids are integers");
    Tensor valid = physical_ids.ne(-1);  // -1 marks a padded or dropped choice
    if (row_mask) {
        require(row_mask->dim() == 1 && row_mask->size(0) == physical_ids.size(0) &&
                    at::isIntegralType(row_mask->scalar_type(), true),
                "record_topk_: row_mask must be [tokens], bool or integer");
        valid = valid.logical_and(row_mask->to(at::kBool).unsqueeze(1));
    }
    const Tensor index =
        physical_ids.to(at::kLong).mul(valid);  // an id that does not count points at slot 0 and adds 0
    pass_counts.select(0, layer).scatter_add_(0, index.reshape({-1}),
                                              valid.to(pass_counts.scalar_type()).reshape({-1}));
    pass_tokens.select(0, layer).add_(valid.any(1).sum());
}

void record_append_(Tensor& ring, Tensor& meta, Tensor& state, Tensor& pass_counts, Tensor& pass_tokens) {
    const Tensor sequence = state.narrow(0, 0, 1), recording = state.narrow(0, 1, 1);
    const Tensor slot = sequence.remainder(ring.size(0)), on = recording.to(at::kBool);
    const Tensor tokens = pass_tokens.max().reshape({1});
    const Tensor tag = state.narrow(0, 3, 1).mul(256).add(state.narrow(0, 2, 1));
    const Tensor entry = at::cat({tokens, tag}).to(meta.scalar_type()).unsqueeze(0);
    // While recording is off the slot is rewritten with what it holds: a captured graph cannot skip.
    const Tensor counts = pass_counts.to(ring.scalar_type());
    ring.index_copy_(0, slot, at::where(on.view({1, 1, 1}), counts.unsqueeze(0), ring.index_select(0, slot)));
    meta.index_copy_(0, slot, at::where(on.view({1, 1}), entry, meta.index_select(0, slot)));
    const Tensor misfit = pass_counts.ne(counts).logical_or(pass_counts.lt(0)).any().reshape({1});
    state.narrow(0, 4, 1).add_(misfit.logical_and(on));
    state.narrow(0, 0, 1).add_(recording);
    pass_counts.zero_();
    pass_tokens.zero_();
}

// out[i] = the counts of ring slot order[i], folded from physical slots to logical experts with maps[generation[i]].
template <typename T>
Tensor fold(const Tensor& ring, const std::vector<int64_t>& order, const std::vector<int64_t>& generation,
            const Tensor& maps, int64_t experts, int64_t record_slots, at::ScalarType out_type) {
    const int64_t layers = ring.size(1), slots = ring.size(2);
    const Tensor out = at::zeros({record_slots, layers, experts}, at::TensorOptions().dtype(out_type));
    const T* const counts = ring.data_ptr<T>();
    const int64_t* const map = maps.data_ptr<int64_t>();
    const auto fold_into = [&](auto* target) {
        for (size_t i = 0; i < order.size(); ++i) {
            for (int64_t layer = 0; layer < layers; ++layer) {
                const T* from = counts + (order[i] * layers + layer) * slots;
                const int64_t* to = map + (generation[i] * layers + layer) * slots;
                auto* row = target + (static_cast<int64_t>(i) * layers + layer) * experts;
                for (int64_t slot = 0; slot < slots; ++slot) row[to[slot]] += from[slot];
            }
        }
    };
    if (out_type == at::kInt) {
        fold_into(out.data_ptr<int32_t>());
    } else {
        fold_into(out.data_ptr<int64_t>());
    }
    return out;
}

Tensor physical_to_logical(const Tensor& ring, at::IntArrayRef order, at::IntArrayRef generation, const Tensor& maps,
                           int64_t experts, int64_t record_slots, bool wide) {
    require(ring.dim() == 3 && ring.is_contiguous() && ring.device().is_cpu(),
            "physical_to_logical: ring must be a contiguous host tensor [B, L, P]");
    require(ring.scalar_type() == at::kInt || ring.scalar_type() == at::kLong,
            "physical_to_logical: counts must be int32 or int64");
    require(maps.dim() == 3 && maps.is_contiguous() && maps.device().is_cpu() && maps.scalar_type() == at::kLong &&
                maps.size(1) == ring.size(1) && maps.size(2) == ring.size(2),
            "physical_to_logical: maps must be a contiguous host int64 tensor [generations, L, P]");
    require(order.size() == generation.size() && static_cast<int64_t>(order.size()) <= record_slots,
            "physical_to_logical: order and generation must name one ring slot for each record");
    for (size_t i = 0; i < order.size(); ++i) {
        require(order[i] >= 0 && order[i] < ring.size(0), "physical_to_logical: a ring slot is outside the ring");
        require(generation[i] >= 0 && generation[i] < maps.size(0),
                "physical_to_logical: a record names an unknown layout generation");
    }
    const int64_t* const map = maps.data_ptr<int64_t>();
    require(std::all_of(map, map + maps.numel(), [&](int64_t expert) { return expert >= 0 && expert < experts; }),
            "physical_to_logical: a map names an expert outside 0.." + std::to_string(experts - 1));
    const at::ScalarType out_type = wide ? at::kLong : at::kInt;
    return ring.scalar_type() == at::kInt
               ? fold<int32_t>(ring, order.vec(), generation.vec(), maps, experts, record_slots, out_type)
               : fold<int64_t>(ring, order.vec(), generation.vec(), maps, experts, record_slots, out_type);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(eplb, library) {
    library.def(
        "record_topk_(Tensor(a!) pass_counts, Tensor(b!) pass_tokens, int layer, Tensor physical_ids, Tensor? "
        "row_mask=None) -> ()");
    library.def(
        "record_append_(Tensor(a!) ring, Tensor(b!) meta, Tensor(c!) state, Tensor(d!) pass_counts, Tensor(e!) "
        "pass_tokens) -> ()");
    library.def(
        "physical_to_logical(Tensor ring, int[] order, int[] generation, Tensor maps, int experts, int record_slots, "
        "bool wide) -> "
        "Tensor");
}

TORCH_LIBRARY_IMPL(eplb, CompositeImplicitAutograd, library) {
    library.impl("record_topk_", record_topk_);
    library.impl("record_append_", record_append_);
    library.impl("physical_to_logical", physical_to_logical);
}
