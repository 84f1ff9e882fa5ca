// The operators of the torch library `eplb`. Every one is a composite of dispatcher calls; docs/loading.md describes
// them by shapes and units.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <cstring>

#include "core/error.hpp"
#include "core/layout.hpp"
#include "dispatch/model.hpp"
#include "loader/plan.hpp"
#include "loader/torch/slot_tensors.hpp"

namespace eplb {
namespace {

// PyTorch turns a std::exception into a Python RuntimeError with its text; an Error's text is its one line.
std::vector<int> to_ints(at::IntArrayRef values) {
    std::vector<int> ints;
    for (const std::int64_t value : values) {
        if (value < -1 || value > max_physical_slots) {
            throw Error(ErrorCode::input, "row", fmt::format("{} is no slot or expert", value));
        }
        ints.push_back(static_cast<int>(value));
    }
    return ints;
}

std::vector<ExpertId> to_experts(at::IntArrayRef values) {
    std::vector<ExpertId> experts;
    for (const int value : to_ints(values)) experts.push_back(ExpertId{value});
    return experts;
}

std::vector<std::string> to_strings(const c10::List<std::string>& list) {
    return {list.begin(), list.end()};
}

using Names = c10::List<std::string>;

std::vector<TensorFamily> families_of(const Names& names, at::IntArrayRef parts, at::TensorList tensors,
                                      const Names& raw, std::int64_t slots) {
    const std::vector<std::string> name_list = to_strings(names), raw_list = to_strings(raw);
    const std::vector<at::Tensor> tensor_list = tensors.vec();
    return split_families({name_list, {parts.data(), parts.size()}, tensor_list, raw_list}, slots);
}

void install_op(const Names& names, at::IntArrayRef slot_parts, at::TensorList slots, at::IntArrayRef expert_parts,
                at::TensorList experts, at::IntArrayRef row, const Names& raw) {
    install(families_of(names, slot_parts, slots, raw, static_cast<std::int64_t>(row.size())),
            families_of(names, expert_parts, experts, raw, -1), to_ints(row));
}

void permute_slots_op(const Names& names, at::IntArrayRef parts, at::TensorList slots, at::IntArrayRef source,
                      const Names& raw) {
    permute_slots(families_of(names, parts, slots, raw, static_cast<std::int64_t>(source.size())), to_ints(source));
}

std::vector<at::Tensor> slot_views_op(const Names& names, at::IntArrayRef parts, at::TensorList tensors,
                                      std::int64_t slots, const Names& raw) {
    std::vector<at::Tensor> views;
    for (const TensorFamily& family : families_of(names, parts, tensors, raw, slots)) {
        views.insert(views.end(), family.slots.begin(), family.slots.end());
    }
    return views;
}

at::Tensor slot_digests_op(const Names& names, at::IntArrayRef parts, at::TensorList tensors, std::int64_t slots,
                           const Names& raw) {
    return slot_digests(families_of(names, parts, tensors, raw, slots));
}

at::Tensor exchange_plan_op(at::IntArrayRef old_row, at::IntArrayRef new_row, std::int64_t ranks, std::int64_t nodes) {
    const std::vector<SlotMove> moves =
        exchange_plan(to_experts(old_row), to_experts(new_row), static_cast<int>(ranks), static_cast<int>(nodes));
    at::Tensor plan = at::empty({static_cast<std::int64_t>(moves.size()), 4}, at::TensorOptions().dtype(at::kLong));
    auto* cell = static_cast<std::int64_t*>(plan.data_ptr());
    for (const SlotMove& move : moves) {
        for (const int value : {move.source_rank, move.source_slot, move.target_rank, move.target_slot}) {
            *cell++ = value;
        }
    }
    return plan;
}

at::Tensor dispatch_table_op(const at::Tensor& physical_to_logical, std::int64_t experts, std::int64_t ranks,
                             const std::string& model_name, c10::optional<std::int64_t> nodes,
                             std::int64_t tensor_parallel) {
    const at::Tensor map = physical_to_logical.to(at::kCPU, at::kLong).contiguous();
    if (map.dim() != 2 || ranks < 1 || map.size(1) % ranks != 0) {
        throw Error(ErrorCode::input, "dispatch table", fmt::format("the map does not fit {} ranks", ranks),
                    "a map is [L, R*S]");
    }
    const Geometry geometry{static_cast<int>(map.size(0)), static_cast<int>(experts), static_cast<int>(ranks),
                            static_cast<int>(map.size(1) / ranks)};
    require_feasible(geometry);
    const auto* ids = static_cast<const std::int64_t*>(map.data_ptr());
    const Layout layout(geometry, to_experts({ids, static_cast<std::size_t>(map.numel())}));
    const DispatchModel& model = find_dispatch_model(model_name);
    if (model.table == nullptr) {
        throw Error(ErrorCode::usage, "dispatch table",
                    fmt::format("the model {} chooses per token and has no table", model_name));
    }
    DispatchContext context;
    if (nodes) context.nodes = static_cast<int>(*nodes);
    context.tensor_parallel = static_cast<int>(tensor_parallel);
    const DispatchTable table = model.table(layout, context);
    at::Tensor result = at::empty({table.ranks, table.layers, table.experts}, at::TensorOptions().dtype(at::kInt));
    std::memcpy(result.data_ptr(), table.slots.data(), table.slots.size() * sizeof(SlotId));
    return result;
}

at::Tensor& remap_in_place_op(at::Tensor& ids, const at::Tensor& table) {
    return ids.copy_(remap(ids, table));
}

}  // namespace
}  // namespace eplb

TORCH_LIBRARY(eplb, library) {
    library.def(
        "install_(str[] names, int[] slot_parts, Tensor(a!)[] slots, int[] expert_parts, Tensor[] experts, int[] row, "
        "str[] raw) -> ()");
    library.def("permute_slots_(str[] names, int[] parts, Tensor(a!)[] slots, int[] source, str[] raw) -> ()");
    library.def("slot_views(str[] names, int[] parts, Tensor[] tensors, int slots, str[] raw) -> Tensor[]");
    library.def("slot_digests(str[] names, int[] parts, Tensor[] tensors, int slots, str[] raw) -> Tensor");
    library.def("exchange_plan(int[] old_row, int[] new_row, int ranks, int nodes=1) -> Tensor");
    library.def(
        "dispatch_table(Tensor physical_to_logical, int experts, int ranks, str model, int? nodes=None, int "
        "tensor_parallel=1) -> Tensor");
    library.def("remap(Tensor ids, Tensor table) -> Tensor");
    library.def("remap_(Tensor(a!) ids, Tensor table) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(eplb, CompositeImplicitAutograd, library) {
    library.impl("install_", TORCH_FN(eplb::install_op));
    library.impl("permute_slots_", TORCH_FN(eplb::permute_slots_op));
    library.impl("slot_views", TORCH_FN(eplb::slot_views_op));
    library.impl("slot_digests", TORCH_FN(eplb::slot_digests_op));
    library.impl("exchange_plan", TORCH_FN(eplb::exchange_plan_op));
    library.impl("dispatch_table", TORCH_FN(eplb::dispatch_table_op));
    library.impl("remap", TORCH_FN(eplb::remap));
    library.impl("remap_", TORCH_FN(eplb::remap_in_place_op));
}
