#include "core/layout.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace eplb {

Layout::Layout(const Geometry& geometry)
    : geometry_(geometry), slots_(static_cast<std::size_t>(geometry.layers) * width()) {}

Layout::Layout(const Geometry& geometry, std::vector<ExpertId> slots) : geometry_(geometry), slots_(std::move(slots)) {
    const std::size_t wanted = static_cast<std::size_t>(geometry.layers) * width();
    if (slots_.size() != wanted) {
        throw Error(ErrorCode::input, "",
                    fmt::format("a layout of {} slots was expected, {} were given", wanted, slots_.size()));
    }
    for (std::size_t index = 0; index < slots_.size(); ++index) {
        const int expert = slots_[index].value;
        if (expert < 0 || expert >= geometry.experts) {
            throw Error(ErrorCode::input, fmt::format("layer {}, physical slot {}", index / width(), index % width()),
                        fmt::format("expert {} is outside 0..{}", expert, geometry.experts - 1));
        }
    }
}

std::vector<int> replica_counts(std::span<const ExpertId> row, int experts) {
    std::vector<int> counts(static_cast<std::size_t>(experts));
    for (const ExpertId expert : row) ++counts[static_cast<std::size_t>(expert.value)];
    return counts;
}

void fill_trivial_row(std::span<ExpertId> row, int experts) {
    for (std::size_t slot = 0; slot < row.size(); ++slot) {
        row[slot] = ExpertId{static_cast<int>(slot % static_cast<std::size_t>(experts))};
    }
}

Layout trivial_layout(const Geometry& geometry) {
    Layout layout(geometry);
    for (int layer = 0; layer < geometry.layers; ++layer) fill_trivial_row(layout.row(layer), geometry.experts);
    return layout;
}

}  // namespace eplb
