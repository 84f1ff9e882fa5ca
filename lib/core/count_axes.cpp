#include "core/count_axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr const char* axes_flag = "--axes";
constexpr std::array<std::string_view, 3> names{"slots", "layers", "experts"};  // by CountAxis

}  // namespace

CountAxes parse_count_axes(std::string_view text) {
    CountAxes axes;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        const std::string_view word = text.substr(at, end - at);
        const auto name = std::find(names.begin(), names.end(), word);
        const auto axis = static_cast<CountAxis>(name - names.begin());
        if (name == names.end() || std::find(axes.begin(), axes.end(), axis) != axes.end()) {
            throw Error(ErrorCode::usage, axes_flag,
                        fmt::format("'{}' {}", word, name == names.end() ? "is no axis" : "stands there twice"),
                        "name slots, layers and experts in the order of the file, for example layers,slots,experts");
        }
        axes.push_back(axis);
        at = end + 1;
    }
    const bool slots = std::find(axes.begin(), axes.end(), CountAxis::slots) != axes.end();
    if (axes.size() != (slots ? 3 : 2)) {
        throw Error(ErrorCode::usage, axes_flag, fmt::format("'{}' does not name both layers and experts", text),
                    "only slots may be missing, for a file of one record slot");
    }
    return axes;
}

std::string axes_text(std::span<const CountAxis> axes) {
    std::vector<std::string_view> words;
    for (const CountAxis axis : axes) words.push_back(names[static_cast<std::size_t>(axis)]);
    return fmt::format("{}", fmt::join(words, ","));
}

Tensor in_order(Tensor tensor, std::span<const CountAxis> axes) {
    std::vector<std::int64_t> shape = tensor.shape, strides = tensor.strides;
    if (axes.size() == 2 && shape.size() == 3 && shape.front() == 1) {
        shape.erase(shape.begin());
        strides.erase(strides.begin());
    }
    if (axes.size() != shape.size()) {
        throw Error(ErrorCode::usage, axes_flag,
                    fmt::format("{} names {} axes, the array has {}: [{}]", axes_text(axes), axes.size(), shape.size(),
                                fmt::join(tensor.shape, ", ")));
    }
    tensor.shape.clear();
    tensor.strides.clear();
    for (const CountAxis wanted : {CountAxis::slots, CountAxis::layers, CountAxis::experts}) {
        const auto place = std::find(axes.begin(), axes.end(), wanted);
        if (place == axes.end()) continue;
        const auto axis = static_cast<std::size_t>(place - axes.begin());
        tensor.shape.push_back(shape[axis]);
        tensor.strides.push_back(strides[axis]);
    }
    return tensor;
}

}  // namespace eplb
