#include "loader/torch/slot_tensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/error.hpp"
#include "files/digest.hpp"
#include "loader/plan.hpp"

namespace eplb {
namespace {

std::string describe(const at::Tensor& tensor) {
    std::string shape;
    for (const std::int64_t extent : tensor.sizes()) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
    return fmt::format("{} [{}]", at::toString(tensor.scalar_type()), shape);
}

// The whole storage of `tensor` as uint8 [bytes], sharing its memory.
at::Tensor storage_bytes(const std::string& name, const at::Tensor& tensor) {
    if (tensor.storage_offset() != 0) {
        throw Error(ErrorCode::input, name, "is a private-format tensor that starts inside its storage",
                    "install before the format cast, or give every slot a storage of its own");
    }
    const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
    at::Tensor view = at::empty({0}, tensor.options().dtype(at::kByte));
    return view.set_(tensor.storage(), 0, {bytes}, {1});
}

std::vector<at::Tensor> stacked_slots(const std::string& name, const at::Tensor& tensor, std::int64_t slots, bool raw) {
    std::vector<at::Tensor> views;
    if (tensor.dim() == 0 || (slots >= 0 && tensor.size(0) != slots)) {
        throw Error(ErrorCode::input, name, fmt::format("{} has no first axis of {} slots", describe(tensor), slots),
                    "the adapter names tensors that move slot by slot");
    }
    slots = tensor.size(0);
    if (!raw) {
        if (!tensor.is_non_overlapping_and_dense()) {
            throw Error(ErrorCode::input, name, fmt::format("{} overlaps itself or has gaps", describe(tensor)));
        }
        for (std::int64_t slot = 0; slot < slots; ++slot) views.push_back(tensor.select(0, slot));
        return views;
    }
    const at::Tensor bytes = storage_bytes(name, tensor);
    if (slots == 0 || bytes.size(0) % slots != 0) {
        throw Error(
            ErrorCode::input, name,
            fmt::format("its private-format storage of {} bytes does not divide by {} slots", bytes.size(0), slots),
            "install before the format cast, or give every slot a storage of its own (list mode)");
    }
    const std::int64_t slot_bytes = bytes.size(0) / slots;
    for (std::int64_t slot = 0; slot < slots; ++slot) views.push_back(bytes.narrow(0, slot * slot_bytes, slot_bytes));
    return views;
}

// Shapes are compared without leading ones: a stacked [1, ...] and a list of one [...] hold the same slot.
at::IntArrayRef slot_shape(const at::Tensor& slot) {
    at::IntArrayRef shape = slot.sizes();
    while (!shape.empty() && shape.front() == 1) shape = shape.slice(1);
    return shape;
}

void require_same_kind(const std::string& name, const at::Tensor& slot, const at::Tensor& source) {
    if (slot.scalar_type() != source.scalar_type() || slot_shape(slot) != slot_shape(source)) {
        throw Error(ErrorCode::input, name,
                    fmt::format("a slot is {}, its source is {}", describe(slot), describe(source)),
                    "the source must already be in the form that the server computes with");
    }
}

void require_same_families(const std::vector<TensorFamily>& slots, const std::vector<TensorFamily>& experts) {
    const bool same = std::equal(slots.begin(), slots.end(), experts.begin(), experts.end(),
                                 [](const TensorFamily& a, const TensorFamily& b) { return a.name == b.name; });
    if (!same) throw Error(ErrorCode::input, "tensor names", "slots and sources name different tensors");
}

// A list may name one memory twice; what one slot gets, the other would have lost.
void require_apart(const TensorFamily& family) {
    std::vector<std::pair<const std::byte*, std::size_t>> ranges;
    for (const at::Tensor& slot : family.slots) {
        if (slot.numel() == 0 || !slot.is_non_overlapping_and_dense()) continue;
        ranges.emplace_back(static_cast<const std::byte*>(slot.data_ptr()), slot.nbytes());
    }
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t next = 1; next < ranges.size(); ++next) {
        if (ranges[next - 1].first + ranges[next - 1].second <= ranges[next].first) continue;
        throw Error(ErrorCode::input, family.name, "two slots share memory", "every slot has memory of its own");
    }
}

bool in_host_memory(const at::Tensor& tensor) {
    return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous();
}

// Slots are large, and of equal type and shape. Where both lie in one piece in the host's own memory the C library
// copies faster than copy_, which reads every line that it is going to overwrite.
void copy_slot(const at::Tensor& target, const at::Tensor& source) {
    if (!in_host_memory(target) || !in_host_memory(source)) {
        target.copy_(source);
        return;
    }
    constexpr std::int64_t piece = std::int64_t{4} << 20;
    auto* to = static_cast<std::byte*>(target.data_ptr());
    const auto* from = static_cast<const std::byte*>(source.data_ptr());
    at::parallel_for(0, static_cast<std::int64_t>(target.nbytes()), piece, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
}

void digest_into(const at::Tensor& slot, std::int64_t* words) {
    const at::Tensor host = slot.to(at::kCPU).contiguous();
    const std::array<std::byte, 32> digest =
        sha256({static_cast<const std::byte*>(host.data_ptr()), static_cast<std::size_t>(host.nbytes())});
    std::memcpy(words, digest.data(), digest.size());
}

}  // namespace

std::vector<TensorFamily> split_families(const FamilyLists& lists, std::int64_t slots) {
    if (lists.names.size() != lists.parts.size()) {
        throw Error(ErrorCode::input, "tensor names",
                    fmt::format("{} names, {} part counts", lists.names.size(), lists.parts.size()));
    }
    std::vector<TensorFamily> families;
    std::size_t next = 0;
    for (std::size_t index = 0; index < lists.names.size(); ++index) {
        const std::string& name = lists.names[index];
        const std::int64_t parts = lists.parts[index];
        if (parts < 1 || static_cast<std::size_t>(parts) > lists.tensors.size() - next) {
            throw Error(ErrorCode::input, name,
                        fmt::format("{} tensors were announced, {} are left", parts, lists.tensors.size() - next));
        }
        const bool raw = std::find(lists.raw.begin(), lists.raw.end(), name) != lists.raw.end();
        TensorFamily family{name, {}};
        // A single tensor is a list only where there is one slot and no axis for it.
        if (parts == 1 && !(slots == 1 && (lists.tensors[next].dim() == 0 || lists.tensors[next].size(0) != 1))) {
            family.slots = stacked_slots(name, lists.tensors[next], slots, raw);
        } else if (slots >= 0 && parts != slots) {
            throw Error(ErrorCode::input, name, fmt::format("is a list of {} tensors for {} slots", parts, slots));
        } else {
            for (std::int64_t slot = 0; slot < parts; ++slot) {
                const at::Tensor& tensor = lists.tensors[next + static_cast<std::size_t>(slot)];
                family.slots.push_back(raw ? storage_bytes(name, tensor) : tensor);
            }
        }
        next += static_cast<std::size_t>(parts);
        families.push_back(std::move(family));
    }
    if (next != lists.tensors.size()) {
        throw Error(ErrorCode::input, "tensor names",
                    fmt::format("{} tensors, {} announced", lists.tensors.size(), next));
    }
    return families;
}

void install(const std::vector<TensorFamily>& slots, const std::vector<TensorFamily>& experts,
             std::span<const int> row) {
    const at::NoGradGuard no_grad;
    require_same_families(slots, experts);
    for (std::size_t family = 0; family < slots.size(); ++family) {
        const auto& [name, targets] = slots[family];
        const auto& sources = experts[family].slots;
        require_apart(slots[family]);
        std::unordered_set<const void*> storages;
        for (const at::Tensor& source : sources) storages.insert(source.storage().unsafeGetStorageImpl());
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            if (row[slot] < 0 || static_cast<std::size_t>(row[slot]) >= sources.size()) {
                throw Error(ErrorCode::input, fmt::format("{}, slot {}", name, slot),
                            fmt::format("wants expert {}, the source has {}", row[slot], sources.size()));
            }
            require_same_kind(name, targets[slot], sources[static_cast<std::size_t>(row[slot])]);
            if (storages.contains(targets[slot].storage().unsafeGetStorageImpl())) {
                throw Error(ErrorCode::input, name, "a slot shares memory with a source",
                            "use permute_slots_ to move slots among themselves");
            }
        }
    }
    for (std::size_t family = 0; family < slots.size(); ++family) {
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            const at::Tensor& target = slots[family].slots[slot];
            copy_slot(target, experts[family].slots[static_cast<std::size_t>(row[slot])].view_as(target));
        }
    }
}

void permute_slots(const std::vector<TensorFamily>& slots, std::span<const int> source) {
    const at::NoGradGuard no_grad;
    const std::vector<CopyStep> steps = copy_steps(source);
    for (const TensorFamily& family : slots) {
        require_apart(family);
        for (const CopyStep& step : steps) {
            if (step.from < 0 || step.to < 0) continue;
            require_same_kind(family.name, family.slots[static_cast<std::size_t>(step.to)],
                              family.slots[static_cast<std::size_t>(step.from)]);
        }
    }
    for (const TensorFamily& family : slots) {
        at::Tensor spare;
        for (const CopyStep& step : steps) {
            if (step.to == spare_slot) {
                const at::Tensor& from = family.slots[static_cast<std::size_t>(step.from)];
                if (!spare.defined()) spare = at::empty_like(from);
                copy_slot(spare, from);
            } else {
                const at::Tensor& to = family.slots[static_cast<std::size_t>(step.to)];
                copy_slot(to, step.from == spare_slot ? spare : family.slots[static_cast<std::size_t>(step.from)]);
            }
        }
    }
}

at::Tensor slot_digests(const std::vector<TensorFamily>& families) {
    const at::NoGradGuard no_grad;
    const std::size_t slots = families.empty() ? 0 : families.front().slots.size();
    std::vector<const at::Tensor*> flat;
    bool on_host = true;
    for (const TensorFamily& family : families) {
        if (family.slots.size() != slots) {
            throw Error(ErrorCode::input, family.name,
                        fmt::format("has {} slots, {} has {}", family.slots.size(), families.front().name, slots));
        }
        for (const at::Tensor& slot : family.slots) {
            flat.push_back(&slot);
            on_host = on_host && slot.device().is_cpu();
        }
    }
    const auto count = static_cast<std::int64_t>(flat.size());
    at::Tensor digests = at::empty({count, 4}, at::TensorOptions().dtype(at::kLong));
    auto* words = static_cast<std::int64_t*>(digests.data_ptr());
    const auto digest_range = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t index = begin; index < end; ++index) {
            digest_into(*flat[static_cast<std::size_t>(index)], words + 4 * index);
        }
    };
    if (on_host) {
        at::parallel_for(0, count, 1, digest_range);
    } else {
        digest_range(0, count);  // one slot at a time in host memory
    }
    return digests.view({static_cast<std::int64_t>(families.size()), static_cast<std::int64_t>(slots), 4});
}

at::Tensor remap(const at::Tensor& ids, const at::Tensor& table) {
    const at::NoGradGuard no_grad;
    if (table.dim() != 1) throw Error(ErrorCode::input, "remap", "the table is not one row of slots");
    // An entry in front of the table answers -1, so that the padding needs neither a mask nor a second pass.
    const at::Tensor padded = at::cat({at::full({1}, -1, table.options()), table}).to(ids.scalar_type());
    return padded.index_select(0, at::add(ids, 1).reshape({-1})).view(ids.sizes());
}

}  // namespace eplb
