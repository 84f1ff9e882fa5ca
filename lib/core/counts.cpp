#include "core/counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"

namespace eplb {
namespace {

std::string coordinate(int record_slot, int layer, int expert) {
    return fmt::format("record slot {}, layer {}, expert {}", record_slot, layer, expert);
}

std::int64_t add(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        throw Error(ErrorCode::input, "", "the sum of the counts is above 2^63 - 1");
    }
    return sum;
}

// The common cases without a call per element: native integers along a contiguous row.
template <typename T>
bool widen_native(const std::byte* data, std::span<std::int64_t> row) {
    const T* values = reinterpret_cast<const T*>(data);
    T lowest = 0;
    for (std::size_t expert = 0; expert < row.size(); ++expert) {
        row[expert] = values[expert];
        lowest = std::min(lowest, values[expert]);
    }
    return lowest >= 0;
}

bool aligned_native(const Tensor& tensor, const std::byte* data) {
    return !tensor.byte_swapped && tensor.strides[2] == 1 &&
           reinterpret_cast<std::uintptr_t>(data) % size_of(tensor.dtype) == 0;
}

}  // namespace

Counts::Counts(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
    constexpr std::int64_t limit = std::numeric_limits<int>::max();
    std::int64_t slots = 0;
    for (const Tensor& tensor : tensors_) {
        if (tensor.shape.size() != 3) {
            throw Error(ErrorCode::input, "",
                        fmt::format("counts need 3 axes, this tensor has {}", tensor.shape.size()));
        }
        first_slot_.push_back(static_cast<int>(slots));
        slots += tensor.shape[0];
        if (slots > limit || tensor.shape[1] > limit || tensor.shape[2] > limit) {
            throw Error(ErrorCode::input, "", "a count axis is above 2^31 - 1");
        }
        const auto layers = static_cast<int>(tensor.shape[1]), experts = static_cast<int>(tensor.shape[2]);
        if (&tensor != &tensors_.front() && (layers != layers_ || experts != experts_)) {
            throw Error(ErrorCode::input, "",
                        fmt::format("counts of {} layers x {} experts do not go with {} x {}", layers, experts, layers_,
                                    experts_));
        }
        layers_ = layers;
        experts_ = experts;
    }
    record_slots_ = static_cast<int>(slots);
}

void Counts::read_row(int record_slot, int layer, std::span<std::int64_t> row) const {
    const auto after = std::upper_bound(first_slot_.begin(), first_slot_.end(), record_slot);
    const auto index = static_cast<std::size_t>(after - first_slot_.begin() - 1);
    const Tensor& tensor = tensors_[index];
    const std::int64_t first = (record_slot - first_slot_[index]) * tensor.strides[0] + layer * tensor.strides[1];
    const std::byte* data = tensor.data + first * static_cast<std::int64_t>(size_of(tensor.dtype));
    if (aligned_native(tensor, data)) {
        if (tensor.dtype == DType::int32 && widen_native<std::int32_t>(data, row)) return;
        if (tensor.dtype == DType::int64 && widen_native<std::int64_t>(data, row)) return;
    }
    constexpr double exact_limit = 9007199254740992.0;  // 2^53
    for (int expert = 0; expert < experts_; ++expert) {
        const std::int64_t element = first + expert * tensor.strides[2];
        std::int64_t value = 0;
        if (is_floating(tensor.dtype)) {
            const double number = floating_at(tensor, element);
            if (!(number >= 0.0 && number <= exact_limit) ||
                number != static_cast<double>(static_cast<std::int64_t>(number))) {
                throw Error(ErrorCode::input, coordinate(record_slot, layer, expert),
                            fmt::format("{} is no count", number), "counts are whole numbers from 0 to 2^53");
            }
            value = static_cast<std::int64_t>(number);
        } else {
            value = integer_at(tensor, element);
            if (value < 0) {
                throw Error(ErrorCode::input, coordinate(record_slot, layer, expert),
                            fmt::format("count {} is negative", value));
            }
        }
        row[static_cast<std::size_t>(expert)] = value;
    }
}

std::vector<std::int64_t> Counts::slot_totals() const {
    std::vector<std::int64_t> totals(static_cast<std::size_t>(record_slots_)), row(static_cast<std::size_t>(experts_));
    for (int slot = 0; slot < record_slots_; ++slot) {
        for (int layer = 0; layer < layers_; ++layer) {
            read_row(slot, layer, row);
            for (const std::int64_t value : row)
                totals[static_cast<std::size_t>(slot)] = add(totals[static_cast<std::size_t>(slot)], value);
        }
    }
    return totals;
}

std::int64_t LayerCounts::slot_total(int slot) const {
    std::int64_t total = 0;
    for (const std::int64_t value : row(slot)) total = add(total, value);
    return total;
}

std::vector<std::int64_t> LayerCounts::expert_totals() const {
    std::vector<std::int64_t> totals(static_cast<std::size_t>(experts));
    for (int slot = 0; slot < slots; ++slot) {
        const auto counts = row(slot);
        for (std::size_t expert = 0; expert < totals.size(); ++expert)
            totals[expert] = add(totals[expert], counts[expert]);
    }
    return totals;
}

LayerCounts gather(const Counts& counts, int layer, std::span<const int> record_slots) {
    LayerCounts result{static_cast<int>(record_slots.size()), counts.experts(), {}};
    const auto experts = static_cast<std::size_t>(counts.experts());
    result.values.resize(record_slots.size() * experts);
    for (std::size_t index = 0; index < record_slots.size(); ++index) {
        counts.read_row(record_slots[index], layer, std::span(result.values).subspan(index * experts, experts));
    }
    return result;
}

Tensor make_count_tensor(std::vector<std::int64_t> values, int record_slots, int layers, int experts) {
    const auto owner = std::make_shared<std::vector<std::int64_t>>(std::move(values));
    Tensor tensor;
    tensor.dtype = DType::int64;
    tensor.shape = {record_slots, layers, experts};
    tensor.strides = tensor.contiguous_strides();
    if (static_cast<std::size_t>(tensor.numel()) != owner->size()) {
        throw Error(ErrorCode::internal, "", "a count tensor's values do not fill its shape");
    }
    tensor.data = reinterpret_cast<const std::byte*>(owner->data());
    tensor.owner = owner;
    return tensor;
}

}  // namespace eplb
