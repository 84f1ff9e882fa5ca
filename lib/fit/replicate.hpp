// How many replicas each expert gets: the greedy that keeps the largest load of one replica smallest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace eplb {

// Replica counts c[E] with 1 <= c <= ranks and sum c = total_slots, as this greedy gives them: every expert starts with
// one replica; each further one goes to the expert with the largest w/c among those with c < ranks, ties to the smaller
// id. No other counts have a smaller max w/c. Integer weights are compared exactly (w_a * c_b > w_b * c_a in 128 bits).
//
// weights: one per expert, >= 0. Throws Error{internal} unless E <= total_slots <= E * ranks.
std::vector<int> replicate(std::span<const std::int64_t> weights, int ranks, int total_slots);

// The same for weights that are not counts, such as norms over the record slots; finite, >= 0. The quotients w/c are
// compared as doubles.
std::vector<int> replicate(std::span<const double> weights, int ranks, int total_slots);

}  // namespace eplb
