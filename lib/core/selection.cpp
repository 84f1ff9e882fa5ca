#include "core/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"

namespace eplb {
namespace {

bool names(const std::string& name, const std::string& path) {
    return name == path || name == std::filesystem::path(path).filename().string();
}

void require_inside(const IndexList& numbers, std::int64_t count, const char* flag, const char* what,
                    const std::optional<std::string>& path) {
    if (numbers.largest() < count) return;
    throw Error(ErrorCode::usage, flag,
                fmt::format("there is no {} {} in {}: it has {}", what, numbers.largest(),
                            path.value_or("the sum over the ranks"), count),
                "numbers start at 0");
}

// [record slots]: is it in one of the lists for this file? Empty where no list is for it.
std::vector<bool> named_slots(const std::vector<SlotChoice>& choices, const char* flag, std::int64_t count,
                              const std::optional<std::string>& path, bool alone) {
    std::vector<bool> named;
    for (const SlotChoice& choice : choices) {
        if (choice.file && !path) {
            throw Error(
                ErrorCode::usage, flag,
                fmt::format("{} is one rank's share of a window, whose passes are left out of the sum", *choice.file),
                "give the list without a file name");
        }
        if (!choice.file && !alone) {
            throw Error(ErrorCode::usage, flag, fmt::format("'{}' does not say of which file", choice.text),
                        fmt::format("with several files say FILE:{}", choice.text));
        }
        if (choice.file && !names(*choice.file, *path)) continue;
        require_inside(choice.slots, count, flag, "record slot", path);
        named.resize(static_cast<std::size_t>(count));
        for (std::size_t slot = 0; slot < named.size(); ++slot) {
            if (choice.slots.contains(static_cast<int>(slot))) named[slot] = true;
        }
    }
    return named;
}

}  // namespace

SlotChoice parse_slot_choice(std::string_view flag, const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) return {std::nullopt, IndexList::parse(flag, text), text};
    return {text.substr(0, colon), IndexList::parse(flag, text.substr(colon + 1)), text};
}

bool Selection::keeps_layer(int layer) const {
    return take_layers ? take_layers->contains(layer) : !(drop_layers && drop_layers->contains(layer));
}

void require_consistent(const Selection& selection, const std::vector<std::string>& files) {
    const auto not_both = [](const char* drop, const char* take) {
        throw Error(ErrorCode::usage, take, fmt::format("{} and {} together", drop, take), "give one of the two");
    };
    if (!selection.drop_slots.empty() && !selection.take_slots.empty()) not_both("--drop-slots", "--take-slots");
    if (selection.drop_layers && selection.take_layers) not_both("--drop-layers", "--take-layers");
    for (const auto* choices : {&selection.drop_slots, &selection.take_slots}) {
        for (const SlotChoice& choice : *choices) {
            if (!choice.file) continue;
            const auto meant = std::count_if(files.begin(), files.end(),
                                             [&](const std::string& path) { return names(*choice.file, path); });
            if (meant == 1) continue;
            throw Error(
                ErrorCode::usage, choices == &selection.drop_slots ? "--drop-slots" : "--take-slots",
                fmt::format("'{}' is {} of the files", *choice.file, meant == 0 ? "none" : "the name of several"),
                meant == 0 ? "give the name of a count file" : "give the path as on the command line");
        }
    }
}

LeftOut left_out(const Selection& selection, const Tensor& tensor, const std::optional<std::string>& path, bool alone) {
    LeftOut result;
    const bool take = !selection.take_slots.empty();
    const std::vector<bool> named = named_slots(take ? selection.take_slots : selection.drop_slots,
                                                take ? "--take-slots" : "--drop-slots", tensor.shape[0], path, alone);
    for (std::size_t slot = 0; slot < named.size(); ++slot) {
        if (named[slot] != take) result.slots.push_back(static_cast<int>(slot));
    }
    for (const auto* layers : {&selection.drop_layers, &selection.take_layers}) {
        const char* flag = layers == &selection.drop_layers ? "--drop-layers" : "--take-layers";
        if (*layers) require_inside(**layers, tensor.shape[1], flag, "layer", path);
    }
    for (int layer = 0; layer < tensor.shape[1]; ++layer) {
        if (!selection.keeps_layer(layer)) result.layers.push_back(layer);
    }
    return result;
}

Tensor without(const Tensor& tensor, const LeftOut& left_out) {
    if (!left_out.any()) return tensor;
    const std::size_t width = size_of(tensor.dtype);
    const auto buffer = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(tensor.numel()) * width);
    std::byte* row = buffer->data();
    const auto experts = static_cast<std::size_t>(tensor.shape[2]);
    for (int slot = 0; slot < tensor.shape[0]; ++slot) {
        const bool keeps_slot = !std::binary_search(left_out.slots.begin(), left_out.slots.end(), slot);
        for (int layer = 0; layer < tensor.shape[1]; ++layer, row += experts * width) {
            if (!keeps_slot || std::binary_search(left_out.layers.begin(), left_out.layers.end(), layer)) continue;
            const std::int64_t first = slot * tensor.strides[0] + layer * tensor.strides[1];
            for (std::size_t expert = 0; expert < experts; ++expert) {
                const std::int64_t element = first + static_cast<std::int64_t>(expert) * tensor.strides[2];
                std::memcpy(row + expert * width, tensor.data + element * static_cast<std::int64_t>(width), width);
            }
        }
    }
    Tensor copy = tensor;
    copy.strides = copy.contiguous_strides();
    copy.data = buffer->data();
    copy.owner = buffer;
    return copy;
}

}  // namespace eplb
