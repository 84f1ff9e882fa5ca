#include "dispatch/replica_lists.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace eplb::dispatch {

ReplicaLists::ReplicaLists(const Layout& layout, int layer) try
    : ReplicaLists(layout.row(layer), layout.geometry().experts) {
} catch (const Error& error) {
    throw error.inside(fmt::format("layout, layer {}", layer));
}

ReplicaLists::ReplicaLists(std::span<const ExpertId> row, int experts)
    : first_(static_cast<std::size_t>(experts) + 1), slots_(row.size()) {
    for (const ExpertId expert : row) ++first_[static_cast<std::size_t>(expert.value) + 1];
    for (std::size_t expert = 1; expert < first_.size(); ++expert) {
        if (first_[expert] == 0) {
            throw Error(ErrorCode::input, "",
                        fmt::format("expert {} has no replica, so its tokens have nowhere to go", expert - 1));
        }
        first_[expert] += first_[expert - 1];
    }
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t slot = 0; slot < row.size(); ++slot) {
        slots_[next[static_cast<std::size_t>(row[slot].value)]++] = SlotId{static_cast<int>(slot)};
    }
}

DispatchTable make_table(const Geometry& geometry, std::size_t sources) {
    constexpr std::int64_t most_entries = std::int64_t{1} << 30;
    const std::int64_t rows = static_cast<std::int64_t>(sources) * geometry.layers;
    if (rows > most_entries / geometry.experts) {
        throw Error(ErrorCode::input, "",
                    fmt::format("a dispatch table of {} rows x {} layers x {} experts is too large (at most 2^30 "
                                "entries)",
                                sources, geometry.layers, geometry.experts));
    }
    return DispatchTable(static_cast<int>(sources), geometry.layers, geometry.experts);
}

}  // namespace eplb::dispatch
