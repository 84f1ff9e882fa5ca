// Sorting loads: the part of a fast fit that would otherwise cost most.
#pragma once

#include <span>
#include <vector>

namespace eplb {

// Indices of `values` (finite, >= 0) by descending value, ties by ascending index.
std::vector<int> descending_order(std::span<const double> values);

}  // namespace eplb
