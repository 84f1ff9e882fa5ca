// The numbers that fix the shape of a layout, and the rules that make a geometry feasible.
#pragma once

#include <string>
#include <vector>

namespace eplb {

// P = R*S physical slots = E + redundant. Slot p lives on rank p / S.
struct Geometry {
    int layers = 0;          // L, rows of the layout
    int experts = 0;         // E, logical experts a layer
    int ranks = 0;           // R, expert-parallel ranks
    int slots_per_rank = 0;  // S

    int physical_slots() const { return ranks * slots_per_rank; }
    int redundant_total() const { return physical_slots() - experts; }
    bool operator==(const Geometry&) const = default;
};

inline constexpr int max_layers = 4096, max_experts = 65536, max_ranks = 65536, max_physical_slots = 1 << 20;

// Throws Error{infeasible} unless 1 <= E <= R*S and S <= E (with more slots a rank would need an expert twice); the
// message names the binding rule and the hint the nearest total redundancy that works.
void require_feasible(const Geometry& geometry);

// Slots a rank for a total redundancy. Throws Error{infeasible} when (E + redundant) is not a multiple of R.
int slots_for_redundant_total(int experts, int ranks, int redundant_total);

// Slots a rank for a redundancy counted per rank (xLLM's convention). Throws when E is not a multiple of R.
int slots_for_redundant_per_rank(int experts, int ranks, int redundant_per_rank);

// The feasible total redundancies nearest to `wanted`: the largest one below it, if any, and the smallest two at or
// above it that keep S <= E, ascending.
std::vector<int> nearest_redundant_totals(int experts, int ranks, int wanted);

// "256 experts, 16 ranks x 17 slots (16 redundant in total, 1 a rank)"
std::string describe(const Geometry& geometry);

}  // namespace eplb
