// Torch files read by libtorch itself: the second opinion. Built as a plugin, since linking libtorch costs every start
// of a program 0.8 s and 160 MB.
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "counts_io/libtorch/plugin.hpp"

namespace {

std::optional<eplb::DType> dtype_of(at::ScalarType type) {
    switch (type) {
        case at::kBool:
            return eplb::DType::boolean;
        case at::kByte:
            return eplb::DType::uint8;
        case at::kChar:
            return eplb::DType::int8;
        case at::kShort:
            return eplb::DType::int16;
        case at::kInt:
            return eplb::DType::int32;
        case at::kLong:
            return eplb::DType::int64;
        case at::kHalf:
            return eplb::DType::float16;
        case at::kBFloat16:
            return eplb::DType::bfloat16;
        case at::kFloat:
            return eplb::DType::float32;
        case at::kDouble:
            return eplb::DType::float64;
        default:
            return std::nullopt;
    }
}

void collect(const c10::IValue& value, int depth, std::vector<at::Tensor>& found) {
    constexpr int max_depth = 8;  // as the native reader
    if (depth > max_depth) return;
    if (value.isTensor()) {
        if (value.toTensor().dim() == 2 || value.toTensor().dim() == 3) found.push_back(value.toTensor());
    } else if (value.isTuple()) {
        for (const c10::IValue& element : value.toTupleRef().elements()) collect(element, depth + 1, found);
    } else if (value.isList()) {
        for (const c10::IValue& element : value.toListRef()) collect(element, depth + 1, found);
    } else if (value.isGenericDict()) {
        for (const auto& item : value.toGenericDict()) collect(item.value(), depth + 1, found);
    }
}

struct Choice {
    at::Tensor tensor;
    bool under_key = false;
};

Choice choose(const c10::IValue& root, const std::string& key) {
    if (root.isGenericDict()) {
        for (const auto& item : root.toGenericDict()) {
            if (item.key().isString() && item.key().toStringRef() == key) return {item.value().toTensor(), true};
        }
    }
    std::vector<at::Tensor> found;
    collect(root, 0, found);
    if (found.size() != 1) {
        throw std::runtime_error(std::to_string(found.size()) + " tensors could be the counts");
    }
    return {found[0], false};
}

int refuse(const std::string& reason, char* message, std::size_t message_size) {
    std::snprintf(message, message_size, "%s", reason.substr(0, reason.find('\n')).c_str());
    return 1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int eplb_read_with_libtorch(
    const char* path, const char* key, void (*accept)(void* context, const EplbPluginTensor* tensor), void* context,
    char* message, std::size_t message_size) {
    try {
        caffe2::serialize::PyTorchStreamReader reader{std::string(path)};
        // Whatever device a storage names, its bytes are read to the CPU.
        const c10::IValue root =
            torch::jit::readArchiveAndTensors("data", "", "", c10::nullopt, c10::nullopt, at::Device(at::kCPU), reader);
        const Choice choice = choose(root, key);
        const at::Tensor tensor = choice.tensor.contiguous();
        const std::optional<eplb::DType> dtype = dtype_of(tensor.scalar_type());
        if (!dtype) return refuse("its tensor is of no number type", message, message_size);
        const std::vector<std::int64_t> shape = tensor.sizes().vec();
        const EplbPluginTensor result{
            static_cast<int>(*dtype), static_cast<int>(shape.size()), shape.data(), tensor.data_ptr(), tensor.nbytes(),
            choice.under_key};
        accept(context, &result);
        return 0;
    } catch (const c10::Error& error) {
        return refuse(error.what_without_backtrace(), message, message_size);
    } catch (const std::exception& error) {
        return refuse(error.what(), message, message_size);
    }
}
