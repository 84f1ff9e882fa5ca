// The operators of the torch library `eplb` on tensors: composites of dispatcher calls. docs/loading.md describes them
// by shapes and units.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "core/error.hpp"
#include "core/geometry.hpp"
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
    library.def("remap(Tensor ids, Tensor table) -> Tensor");
    library.def("remap_(Tensor(a!) ids, Tensor table) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(eplb, CompositeImplicitAutograd, library) {
    library.impl("install_", TORCH_FN(eplb::install_op));
    library.impl("permute_slots_", TORCH_FN(eplb::permute_slots_op));
    library.impl("slot_views", TORCH_FN(eplb::slot_views_op));
    library.impl("slot_digests", TORCH_FN(eplb::slot_digests_op));
    library.impl("remap", TORCH_FN(eplb::remap));
    library.impl("remap_", TORCH_FN(eplb::remap_in_place_op));
}
