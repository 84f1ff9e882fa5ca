#include "core/tensor_view.hpp"

#include "core/error.hpp"

namespace eplb {
namespace {

Tensor contiguous_view(DType dtype, std::span<const std::byte> bytes, std::vector<std::int64_t> shape) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.strides = tensor.contiguous_strides();
    tensor.data = bytes.data();
    if (bytes_of(tensor).size() != bytes.size()) {
        throw Error(ErrorCode::internal, "", "the values of a tensor do not fill its shape");
    }
    return tensor;
}

}  // namespace

Tensor view_of(std::span<const std::int32_t> values, std::vector<std::int64_t> shape) {
    return contiguous_view(DType::int32, std::as_bytes(values), std::move(shape));
}

Tensor view_of(std::span<const std::int64_t> values, std::vector<std::int64_t> shape) {
    return contiguous_view(DType::int64, std::as_bytes(values), std::move(shape));
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
    if (!tensor.is_contiguous()) throw Error(ErrorCode::internal, "", "bytes_of needs a contiguous tensor");
    return {tensor.data, static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype)};
}

}  // namespace eplb
