// A layout: physical_to_logical_map[L][P].
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/geometry.hpp"
#include "core/ids.hpp"

namespace eplb {

// Row-major [L, R*S]. Holds any map of the right shape, legal or not: `check` judges it, so that an illegal baseline
// can still be scored and named. Every id is inside [0, E).
class Layout {
  public:
    Layout() = default;
    explicit Layout(const Geometry& geometry);  // every slot holds expert 0
    // Throws Error{input} when the size is not L*P or an id is outside [0, E).
    Layout(const Geometry& geometry, std::vector<ExpertId> slots);

    const Geometry& geometry() const { return geometry_; }
    std::span<const ExpertId> row(int layer) const { return {slots_.data() + offset(layer), width()}; }
    std::span<ExpertId> row(int layer) { return {slots_.data() + offset(layer), width()}; }
    bool operator==(const Layout&) const = default;

  private:
    std::size_t width() const { return static_cast<std::size_t>(geometry_.physical_slots()); }
    std::size_t offset(int layer) const { return static_cast<std::size_t>(layer) * width(); }

    Geometry geometry_;
    std::vector<ExpertId> slots_;
};

// Replicas of each expert in a row, [E].
std::vector<int> replica_counts(std::span<const ExpertId> row, int experts);

// SGLang's "trivial" row: slot p holds expert p mod E. Covers every expert; with redundancy, a rank may hold one twice
// only if S > E, which require_feasible forbids.
void fill_trivial_row(std::span<ExpertId> row, int experts);
Layout trivial_layout(const Geometry& geometry);

}  // namespace eplb
