#include "counts_io/layer_stack.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/fail_input.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

std::string type_and_shape(const Tensor& tensor) {
    return fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ", "));
}

// One record slot of a layer, or the layer itself.
Tensor with_two_axes(const LayerCountsOf& part) {
    Tensor view = part.counts;
    if (view.shape.size() == 1) {
        view.shape.insert(view.shape.begin(), 1);
        view.strides.insert(view.strides.begin(), 0);
    }
    if (view.shape.size() != 2 || view.shape[1] > max_experts) {
        fail_input("BAD_GEOMETRY", part.where, fmt::format("{} is no layer's counts", type_and_shape(part.counts)),
                   "a layer is [experts] or [record slots, experts]");
    }
    return view;
}

}  // namespace

std::optional<std::int64_t> layer_of_key(std::string_view key) {
    for (const std::string_view word : {"layers", "layer"}) {
        if (!key.starts_with(word)) continue;
        key.remove_prefix(word.size());
        if (!key.empty() && std::string_view("_.-").find(key.front()) != std::string_view::npos) key.remove_prefix(1);
        break;
    }
    std::int64_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (key.empty() || error != std::errc() || end != key.data() + key.size()) return std::nullopt;
    if (layer < 0 || layer >= max_layers || (key.size() > 1 && key.front() == '0')) return std::nullopt;
    return layer;
}

std::int64_t cells_of(std::int64_t a, std::int64_t b, std::int64_t c) {
    std::int64_t cells = 0;
    if (__builtin_mul_overflow(a, b, &cells) || __builtin_mul_overflow(cells, c, &cells)) {
        fail_input("BAD_GEOMETRY", "", fmt::format("{} x {} x {} counts are absurd", a, b, c));
    }
    return cells;
}

void require_plausible_size(std::int64_t cells, std::int64_t stored, std::string_view what) {
    constexpr std::int64_t always_fine = std::int64_t{1} << 22, most_times = 64;  // 32 MiB; one layer of 64
    if (cells > always_fine && cells / most_times > stored) {
        fail_input("BAD_GEOMETRY", "", fmt::format("{} would be {} counts, the file has {}", what, cells, stored),
                   "a number in it is damaged");
    }
}

Tensor stack_layers(const std::vector<LayerCountsOf>& parts, std::optional<int> layers) {
    std::map<std::int64_t, Tensor> views;
    const LayerCountsOf* first = nullptr;
    std::int64_t stored = 0;
    for (const LayerCountsOf& part : parts) {
        const Tensor view = with_two_axes(part);
        if (layers && part.layer >= *layers) {
            fail_input("BAD_GEOMETRY", part.where,
                       fmt::format("layer {} is none of the {} layers", part.layer, *layers),
                       "--layers is the number of the model's layers");
        }
        if (first && part.counts.shape != first->counts.shape) {
            fail_input(
                "BAD_GEOMETRY", part.where,
                fmt::format("{}, {} has {}", type_and_shape(part.counts), first->where, type_and_shape(first->counts)),
                "every layer needs the same record slots and experts");
        }
        if (!first) first = &part;
        if (!views.emplace(part.layer, view).second) {
            fail_input("MALFORMED", part.where, fmt::format("layer {} is there twice", part.layer),
                       "give every layer once");
        }
        stored += view.numel();
    }
    if (views.empty()) fail_input("NOT_A_COUNT_FILE", "", "holds no layer");
    const std::int64_t rows = layers ? *layers : views.rbegin()->first + 1;
    const std::int64_t record_slots = views.begin()->second.shape[0], experts = views.begin()->second.shape[1];
    require_plausible_size(cells_of(record_slots, rows, experts), stored, fmt::format("layers 0 to {}", rows - 1));
    NumberList values;
    for (std::int64_t slot = 0; slot < record_slots; ++slot) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const auto found = views.find(row);
            for (std::int64_t expert = 0; expert < experts; ++expert) {
                if (found == views.end()) {
                    values.add(std::int64_t{0});
                    continue;
                }
                const Tensor& view = found->second;
                const std::int64_t index = slot * view.strides[0] + expert * view.strides[1];
                if (is_floating(view.dtype)) {
                    values.add(floating_at(view, index));
                } else {
                    values.add(integer_at(view, index));
                }
            }
        }
    }
    return std::move(values).tensor({record_slots, rows, experts});
}

}  // namespace eplb
