// Tensors over values in memory, for whoever writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace eplb {

// A contiguous tensor over values that somebody else owns and keeps. Throws Error{internal} when they do not fill the
// shape.
Tensor view_of(std::span<const std::int32_t> values, std::vector<std::int64_t> shape);
Tensor view_of(std::span<const std::int64_t> values, std::vector<std::int64_t> shape);

// The bytes of a contiguous tensor. Throws Error{internal} for any other.
std::span<const std::byte> bytes_of(const Tensor& tensor);

}  // namespace eplb
