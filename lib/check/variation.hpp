// How much of the traffic sits on other experts in one part of the counts than in another: the total variation between
// the expert shares of a layer, half the sum of their absolute differences, in the median layer.
#pragma once

#include <cstdint>
#include <span>

#include "check/count_statistics.hpp"
#include "core/record_split.hpp"
#include "core/tensor.hpp"

namespace eplb {

// Between the two parts of a split of the record slots of one array. Layers without counts in a part are left out; 0
// where none is left.
double median_variation(const Tensor& tensor, const CountStatistics& statistics, const RecordSplit& split);

// Between all counts of two arrays of the same layers and experts.
double median_variation(const CountStatistics& a, const CountStatistics& b);

// What median_variation(a, b) would be on average if every token of both had drawn its experts independently from the
// shares of both together.
double median_sampling_noise(const CountStatistics& a, const CountStatistics& b);

}  // namespace eplb
