#include "files/number_list.hpp"

#include <memory>
#include <utility>

#include "core/error.hpp"

namespace eplb {
namespace {

bool exact_as_double(std::int64_t value) {
    constexpr std::int64_t limit = std::int64_t{1} << 53;
    return value >= -limit && value <= limit;
}

[[noreturn]] void inexact() {
    throw Error(ErrorCode::input, "", "mixes numbers with a fraction or exponent and whole numbers above 2^53",
                "write all counts as whole numbers")
        .as_finding("MALFORMED");
}

template <typename T>
Tensor owning(DType dtype, std::vector<T> values, std::vector<std::int64_t> shape) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.strides = tensor.contiguous_strides();
    if (static_cast<std::size_t>(tensor.numel()) != values.size()) {
        throw Error(ErrorCode::internal, "", "the values of a tensor do not fill its shape");
    }
    const auto owner = std::make_shared<std::vector<T>>(std::move(values));
    tensor.data = reinterpret_cast<const std::byte*>(owner->data());
    tensor.owner = owner;
    return tensor;
}

}  // namespace

void NumberList::add(std::int64_t value) {
    if (reals_.empty()) {
        integers_.push_back(value);
    } else if (exact_as_double(value)) {
        reals_.push_back(static_cast<double>(value));
    } else {
        inexact();
    }
}

void NumberList::add(double value) {
    if (reals_.empty()) {  // the first real: the whole numbers before it must survive as doubles too
        reals_.reserve(integers_.size() + 1);
        for (const std::int64_t integer : integers_) {
            if (!exact_as_double(integer)) inexact();
            reals_.push_back(static_cast<double>(integer));
        }
        integers_ = {};
    }
    reals_.push_back(value);
}

Tensor NumberList::tensor(std::vector<std::int64_t> shape) && {
    return reals_.empty() ? owning(DType::int64, std::move(integers_), std::move(shape))
                          : owning(DType::float64, std::move(reals_), std::move(shape));
}

Tensor tensor_of(std::vector<std::int64_t> values, std::vector<std::int64_t> shape) {
    return owning(DType::int64, std::move(values), std::move(shape));
}

}  // namespace eplb
