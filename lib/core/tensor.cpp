#include "core/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"

namespace eplb {
namespace {

template <typename T>
T load(const Tensor& tensor, std::int64_t index) {
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), tensor.data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    if (tensor.byte_swapped) std::reverse(bytes.begin(), bytes.end());
    return std::bit_cast<T>(bytes);
}

[[noreturn]] void fail_absurd(std::int64_t extent) {
    throw Error(ErrorCode::input, "", fmt::format("a tensor shape with extent {} is absurd", extent))
        .as_finding("BAD_GEOMETRY");
}

double half_to_double(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
    const double sign = (bits & 0x8000) ? -1.0 : 1.0;
    if (exponent == 0x1f)
        return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(fraction | 0x400, exponent - 25);
}

}  // namespace

std::size_t size_of(DType dtype) {
    switch (dtype) {
        case DType::boolean:
        case DType::uint8:
        case DType::int8:
            return 1;
        case DType::uint16:
        case DType::int16:
        case DType::float16:
        case DType::bfloat16:
            return 2;
        case DType::uint32:
        case DType::int32:
        case DType::float32:
            return 4;
        case DType::uint64:
        case DType::int64:
        case DType::float64:
            return 8;
    }
    return 8;
}

std::string_view name_of(DType dtype) {
    switch (dtype) {
        case DType::boolean:
            return "bool";
        case DType::uint8:
            return "uint8";
        case DType::int8:
            return "int8";
        case DType::uint16:
            return "uint16";
        case DType::int16:
            return "int16";
        case DType::uint32:
            return "uint32";
        case DType::int32:
            return "int32";
        case DType::uint64:
            return "uint64";
        case DType::int64:
            return "int64";
        case DType::float16:
            return "float16";
        case DType::bfloat16:
            return "bfloat16";
        case DType::float32:
            return "float32";
        case DType::float64:
            return "float64";
    }
    return "unknown";
}

bool is_floating(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

bool is_integer(DType dtype) {
    return dtype != DType::boolean && !is_floating(dtype);
}

std::int64_t Tensor::numel() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) {
        if (extent < 0 || __builtin_mul_overflow(product, extent, &product)) {
            fail_absurd(extent);
        }
    }
    return product;
}

std::vector<std::int64_t> Tensor::contiguous_strides() const {
    std::vector<std::int64_t> result(shape.size());
    std::int64_t stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        result[axis] = stride;
        if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape[axis], 1), &stride)) {
            fail_absurd(shape[axis]);
        }
    }
    return result;
}

bool Tensor::is_contiguous() const {
    const std::vector<std::int64_t> wanted = contiguous_strides();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] > 1 && strides[axis] != wanted[axis]) return false;
    }
    return true;
}

std::int64_t integer_at(const Tensor& tensor, std::int64_t index) {
    switch (tensor.dtype) {
        case DType::boolean:
        case DType::uint8:
            return load<std::uint8_t>(tensor, index);
        case DType::int8:
            return load<std::int8_t>(tensor, index);
        case DType::uint16:
            return load<std::uint16_t>(tensor, index);
        case DType::int16:
            return load<std::int16_t>(tensor, index);
        case DType::uint32:
            return load<std::uint32_t>(tensor, index);
        case DType::int32:
            return load<std::int32_t>(tensor, index);
        case DType::int64:
            return load<std::int64_t>(tensor, index);
        case DType::uint64: {
            const auto value = load<std::uint64_t>(tensor, index);
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
                throw Error(ErrorCode::input, "", fmt::format("count {} is above 2^63 - 1", value));
            }
            return static_cast<std::int64_t>(value);
        }
        default:
            throw Error(ErrorCode::internal, "", fmt::format("integer_at on {}", name_of(tensor.dtype)));
    }
}

double floating_at(const Tensor& tensor, std::int64_t index) {
    switch (tensor.dtype) {
        case DType::float16:
            return half_to_double(load<std::uint16_t>(tensor, index));
        case DType::bfloat16:
            return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(tensor, index)) << 16);
        case DType::float32:
            return load<float>(tensor, index);
        case DType::float64:
            return load<double>(tensor, index);
        default:
            throw Error(ErrorCode::internal, "", fmt::format("floating_at on {}", name_of(tensor.dtype)));
    }
}

}  // namespace eplb
