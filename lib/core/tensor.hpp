// A read-only strided view of a tensor that a file holds: what every count reader produces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace eplb {

enum class DType {
    boolean,
    uint8,
    int8,
    uint16,
    int16,
    uint32,
    int32,
    uint64,
    int64,
    float16,
    bfloat16,
    float32,
    float64
};

std::size_t size_of(DType dtype);       // bytes of one element
std::string_view name_of(DType dtype);  // "int32"
bool is_integer(DType dtype);           // not boolean
bool is_floating(DType dtype);

struct Tensor {
    DType dtype = DType::int64;
    bool byte_swapped = false;          // stored in the other byte order than this machine's
    std::vector<std::int64_t> shape;    // elements along each axis
    std::vector<std::int64_t> strides;  // elements between neighbours along each axis, >= 0
    const std::byte* data = nullptr;    // first element; every index inside shape is inside the owner's bytes
    std::shared_ptr<const void> owner;  // keeps the bytes alive: a mapped file or a buffer

    // Both throw Error{input}, finding code BAD_GEOMETRY, where the product of the extents overflows.
    std::int64_t numel() const;
    std::vector<std::int64_t> contiguous_strides() const;
    bool is_contiguous() const;
};

// The element `index` elements after data, widened without loss. Integers only (boolean counts as 0/1).
// uint64 values above 2^63-1 throw Error{input}.
std::int64_t integer_at(const Tensor& tensor, std::int64_t index);

// The element `index` elements after data as a double. Floating types only.
double floating_at(const Tensor& tensor, std::int64_t index);

}  // namespace eplb
