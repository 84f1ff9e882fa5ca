// Numbers in JSON arrays as tensors.
#pragma once

#include "core/tensor.hpp"
#include "files/json_document.hpp"

namespace eplb {

// The numbers of a rectangular nest of arrays, `least` to `most` deep: int64, or float64 where one literal has a
// fraction or an exponent. Throws Error{input} at the JSON path: BAD_GEOMETRY for another depth and ragged arrays,
// MALFORMED for what is no number.
Tensor json_numbers(const JsonValue& nest, std::size_t least, std::size_t most);

}  // namespace eplb
