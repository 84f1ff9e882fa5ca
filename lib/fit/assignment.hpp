// The linear assignment problem, exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace eplb {

// cost: [n, n] row-major, magnitudes below 2^40. Returns the column of each row, a permutation with the least total
// cost. O(n^3); the same answer on every machine.
//
// Shortest augmenting paths with dual variables (Kuhn 1955, Munkres 1957; Jonker and Volgenant 1987), in integers.
std::vector<int> solve_assignment(std::span<const std::int64_t> cost, int n);

}  // namespace eplb
