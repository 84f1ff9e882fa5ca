// Under which order of its axes would the layers of an array count the same tokens?
#pragma once

#include <optional>

#include "check/count_statistics.hpp"
#include "core/count_axes.hpp"
#include "core/tensor.hpp"

namespace eplb {

// The first other order than slots,layers,experts under which the layer totals agree (LayerAgreement), of an array
// whose values are counts. For one record slot it names two axes.
std::optional<CountAxes> agreeing_axes(const Tensor& tensor, const CountStatistics& statistics);

}  // namespace eplb
