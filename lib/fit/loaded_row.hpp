// A layout row with the loads of its ranks: what exchanges are tried on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace eplb {

// Relative; above the rounding of a rank load, so that every exchange that is made is a gain.
inline constexpr double least_gain = 1e-12;

// Works on a row [ranks * S] and the load of one replica of each expert [E] that the caller owns. Rank loads are always
// sums in slot order, so they do not depend on how the row came about.
class LoadedRow {
  public:
    LoadedRow(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks)
        : row_(row),
          replica_loads_(replica_loads),
          slots_(row.size() / static_cast<std::size_t>(ranks)),
          load_(static_cast<std::size_t>(ranks)) {
        for (std::size_t rank = 0; rank < load_.size(); ++rank) resum(rank);
    }

    std::size_t ranks() const { return load_.size(); }
    std::size_t slots_per_rank() const { return slots_; }
    std::size_t rank_of(std::size_t slot) const { return slot / slots_; }
    std::size_t first_slot(std::size_t rank) const { return rank * slots_; }
    ExpertId expert(std::size_t slot) const { return row_[slot]; }
    double load(std::size_t rank) const { return load_[rank]; }
    std::span<const double> loads() const { return load_; }
    double slot_load(std::size_t slot) const { return replica_loads_[static_cast<std::size_t>(row_[slot].value)]; }

    bool holds(std::size_t rank, ExpertId expert) const {
        const ExpertId* first = row_.data() + first_slot(rank);
        return std::find(first, first + slots_, expert) != first + slots_;
    }

    // The two slots are on different ranks.
    void exchange(std::size_t slot, std::size_t other) {
        std::swap(row_[slot], row_[other]);
        resum(rank_of(slot));
        resum(rank_of(other));
    }

  private:
    void resum(std::size_t rank) {
        double sum = 0;
        for (std::size_t slot = first_slot(rank); slot < first_slot(rank + 1); ++slot) sum += slot_load(slot);
        load_[rank] = sum;
    }

    std::span<ExpertId> row_;
    std::span<const double> replica_loads_;
    std::size_t slots_;
    std::vector<double> load_;  // [R]
};

}  // namespace eplb
