// What the axes of a file's array mean (--axes), and the view of it in the order of the project.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace eplb {

enum class CountAxis { slots, layers, experts };

// Of an array, first axis first: two (layers and experts) or all three, each once.
using CountAxes = std::vector<CountAxis>;

// "layers,slots,experts". Throws Error{usage} for anything else.
CountAxes parse_count_axes(std::string_view text);
std::string axes_text(std::span<const CountAxis> axes);

// The view [slots, layers, experts], or [layers, experts], of an array with these axes; nothing is copied. Two axes
// also go with an array [1, a, b]: one record slot. Throws Error{usage} when the numbers of axes differ.
Tensor in_order(Tensor tensor, std::span<const CountAxis> axes);

}  // namespace eplb
