// The inner loops of the rank energy, on raw arrays.
#pragma once

#include <cstddef>

#include "fit/lanes.hpp"

namespace eplb::energy {

// Arrays of one layer; the vector index v runs over record slots, eight at a time. See rank_energy.hpp for the symbols.
struct Arrays {
    int vectors = 0;
    const Lanes* shares = nullptr;   // y      [experts][vectors]
    const Lanes* weights = nullptr;  // omega  [vectors]; 0 in the padding
    Lanes* factors = nullptr;        // exp(+b y/c), exp(-b y/c)   [experts][vectors][2]
    Lanes* ranks = nullptr;          // exp(b (L - M))   [ranks][vectors]
    Lanes* sums = nullptr;           // sum over the ranks   [vectors]
    Lanes* gradient = nullptr;       // omega / (b * sums)   [vectors]
    Lanes* sharpness = nullptr;      // b   [vectors]
    Lanes* reference = nullptr;      // M   [vectors]
    Lanes* empty = nullptr;          // exp(-b M), the term of a rank without experts   [vectors]
    Lanes* scratch = nullptr;        // [2 * slots a rank][vectors]
};

// A rank that a replica move touches beside the one whose slot changes.
struct Touched {
    int rank = 0;
    bool holds_gaining = false, holds_losing = false;
};

struct Kernels {
    // Row `expert` of the factors for `replicas` replicas.
    void (*fill_factors)(const Arrays& arrays, int expert, int replicas);
    // Row `rank` of the rank terms from the factors of its experts.
    void (*fill_rank)(const Arrays& arrays, int rank, const int* experts, int count);
    // M = max(1, largest load) of every record slot, b = sharpness / M and exp(-b M), from the shares.
    void (*fill_reference)(const Arrays& arrays, const int* row, int ranks, int slots_per_rank, const int* replicas,
                           float sharpness);
    // Sums over the ranks, gradient, and the largest term and its rank for every record slot.
    void (*refresh)(const Arrays& arrays, int ranks, float* largest, int* hottest);
    // The tangent's change of the energy when `a` on rank_a and `b` on rank_b change places.
    float (*swap_change)(const Arrays& arrays, int rank_a, int rank_b, int a, int b);
    void (*apply_swap)(const Arrays& arrays, int rank_a, int rank_b, int a, int b);
    // The same change for every a in `as` against every b in `bs`, into changes[i * stride + j]; stride is `b_count`
    // rounded up to a multiple of 4, and what is beyond b_count is FLT_MAX. Returns where the least one is, the first.
    int (*swap_changes)(const Arrays& arrays, int rank_a, int rank_b, const int* as, int a_count, const int* bs,
                        int b_count, float* changes, int stride);
    // The change when a slot of `rank` turns from `losing` (replicas before: losing_replicas) into `gaining`.
    float (*replica_change)(const Arrays& arrays, int rank, int gaining, int gaining_replicas, int losing,
                            int losing_replicas, const Touched* touched, int touched_count);
};

// The fastest set this machine runs; all sets give the same bits.
const Kernels& kernels();
// Every set this machine runs, for tests.
int kernel_set_count();
const Kernels& kernel_set(int index);

}  // namespace eplb::energy
