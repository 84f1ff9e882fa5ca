// A static dispatch table: for each source rank, layer and logical expert, the physical slot that its tokens go to.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/ids.hpp"

namespace eplb {

// int32 [R, L, E], row-major.
struct DispatchTable {
    int ranks = 0, layers = 0, experts = 0;
    std::vector<SlotId> slots;

    DispatchTable() = default;
    DispatchTable(int ranks_, int layers_, int experts_)
        : ranks(ranks_),
          layers(layers_),
          experts(experts_),
          slots(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(layers_) *
                static_cast<std::size_t>(experts_)) {}

    std::span<const SlotId> row(int rank, int layer) const {
        return {slots.data() + offset(rank, layer), static_cast<std::size_t>(experts)};
    }
    std::span<SlotId> row(int rank, int layer) {
        return {slots.data() + offset(rank, layer), static_cast<std::size_t>(experts)};
    }
    bool operator==(const DispatchTable&) const = default;

  private:
    std::size_t offset(int rank, int layer) const {
        return (static_cast<std::size_t>(rank) * static_cast<std::size_t>(layers) + static_cast<std::size_t>(layer)) *
               static_cast<std::size_t>(experts);
    }
};

}  // namespace eplb
