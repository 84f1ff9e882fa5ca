#include "counts_io/libtorch_reader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "counts_io/libtorch/plugin.hpp"
#include "files/child_process.hpp"

namespace eplb {
namespace {

std::string find_plugin() {
    std::error_code failed;
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
    std::vector<std::string> tried;
    for (const char* place : {".", "../lib/eplb", "../../lib/counts_io/libtorch"}) {
        const std::filesystem::path candidate = (folder / place / eplb_plugin_file).lexically_normal();
        if (std::filesystem::exists(candidate, failed)) return candidate;
        tried.push_back(candidate);
    }
    throw Error(ErrorCode::usage, "",
                fmt::format("the libtorch reader is not installed: no {}", fmt::join(tried, ", ")),
                "build with EPLB_TORCH=ON, or leave out --pt-reader and --cross-check");
}

struct Outcome {
    std::optional<Tensor> tensor;
    bool under_key = false;  // it stood under the wanted key of a dict
    bool crashed = false;
    std::string reason;  // where there is no tensor
};

// What the child answers: 't' and the header of a tensor whose values lie in the shared memory, or 'r' and a reason.
struct Header {
    int dtype = 0, axes = 0, under_key = 0;
    std::array<std::int64_t, 64> shape{};
};

Outcome read_in_child(const std::string& plugin, const MappedFile& file, const std::string& key) {
    const auto memory = std::make_shared<SharedMemory>();
    ChildLimits limits;
    limits.memory = (std::size_t{1} << 33) + 8 * file.bytes().size();  // libtorch alone maps some gigabytes
    const ChildResult result = run_in_child(limits, [&]() -> std::string {
        void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return fmt::format("rthe plugin cannot be loaded: {}", ::dlerror());
        const auto read = reinterpret_cast<EplbReadWithLibtorch>(::dlsym(library, eplb_plugin_symbol));
        if (read == nullptr) return "rthe plugin is of another version";
        struct Context {
            SharedMemory* memory;
            std::string answer;
        } context{memory.get(), "rits tensor has too many axes"};
        const auto accept = [](void* into, const EplbPluginTensor* tensor) {
            auto& target = *static_cast<Context*>(into);
            Header header;
            if (tensor->axes > static_cast<int>(header.shape.size())) return;
            header.dtype = tensor->dtype;
            header.axes = tensor->axes;
            header.under_key = tensor->under_key;
            std::copy_n(tensor->shape, tensor->axes, header.shape.begin());
            if (tensor->bytes > 0) std::memcpy(target.memory->resize(tensor->bytes), tensor->data, tensor->bytes);
            target.answer = std::string("t") + std::string(reinterpret_cast<const char*>(&header), sizeof header);
        };
        std::array<char, 512> message{};
        const int refused =
            read(file.reopen_path().c_str(), key.c_str(), accept, &context, message.data(), message.size());
        return refused ? fmt::format("r{}", message.data()) : context.answer;
    });
    if (!result.finished) {
        return {std::nullopt, false, true,
                result.signal ? fmt::format("libtorch died of signal {} reading it", result.signal)
                              : "libtorch ended the process reading it"};
    }
    if (result.answer.size() != 1 + sizeof(Header) || result.answer[0] != 't') {
        return {std::nullopt, false, false,
                fmt::format("libtorch refuses it: {}", std::string_view(result.answer).substr(1))};
    }
    Header header;
    std::memcpy(&header, result.answer.data() + 1, sizeof header);
    Tensor tensor;
    tensor.dtype = static_cast<DType>(header.dtype);
    tensor.shape.assign(header.shape.begin(), header.shape.begin() + header.axes);
    tensor.strides = tensor.contiguous_strides();
    const auto size = static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype);
    tensor.data = memory->map(size);
    if (tensor.data == nullptr && size > 0) throw Error(ErrorCode::internal, "", "the libtorch child lost its data");
    tensor.owner = memory;
    return {std::move(tensor), header.under_key != 0, false, ""};
}

std::string key_of(const CountOptions& options) {
    return options.dataset.value_or("logical_count");
}

// The place of the first element that differs; both are 3-D, of one shape and type.
std::optional<std::string> first_difference(const Tensor& first, const Tensor& second) {
    const std::size_t size = size_of(first.dtype);
    std::array<std::byte, 8> bytes;
    for (std::int64_t slot = 0; slot < first.shape[0]; ++slot) {
        for (std::int64_t layer = 0; layer < first.shape[1]; ++layer) {
            for (std::int64_t expert = 0; expert < first.shape[2]; ++expert) {
                const std::int64_t element =
                    slot * first.strides[0] + layer * first.strides[1] + expert * first.strides[2];
                const std::int64_t other =
                    slot * second.strides[0] + layer * second.strides[1] + expert * second.strides[2];
                std::memcpy(bytes.data(), first.data + element * static_cast<std::int64_t>(size), size);
                if (first.byte_swapped) std::reverse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
                if (std::memcmp(bytes.data(), second.data + other * static_cast<std::int64_t>(size), size) != 0) {
                    return fmt::format("record slot {}, layer {}, expert {}", slot, layer, expert);
                }
            }
        }
    }
    return std::nullopt;
}

}  // namespace

DecodedCounts read_pt_with_libtorch(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    Outcome outcome = read_in_child(find_plugin(), *file, key_of(options));
    if (!outcome.tensor) {
        throw Error(ErrorCode::input, "", outcome.reason, "the native reader says more: leave out --pt-reader")
            .as_finding(outcome.crashed ? "READER_CRASHED" : "MALFORMED");
    }
    const bool recorded = outcome.under_key && key_of(options) == "logical_count";  // SGLang sums over all ranks first
    return {std::move(*outcome.tensor), recorded ? Reduction::reduced : Reduction::unknown, std::nullopt, {}};
}

std::optional<Finding> cross_check_with_libtorch(const CountFile& native, const CountOptions& options) {
    const auto impossible = [](std::string reason) {
        return Finding{Severity::info, "CROSS_CHECK_NOT_POSSIBLE", "", std::move(reason),
                       "the native reader has checked the file by itself"};
    };
    if (options.pt_reader == PtReader::libtorch) {
        throw Error(ErrorCode::usage, "--cross-check", "libtorch cannot check itself", "drop --pt-reader libtorch");
    }
    if (native.format != "pt") return impossible(fmt::format("libtorch reads no {} files", native.format));
    Outcome outcome = read_in_child(find_plugin(), *native.source, key_of(options));
    if (!outcome.tensor) return impossible(outcome.reason);
    Tensor& second = *outcome.tensor;
    if (options.axes) second = in_order(std::move(second), *options.axes);
    if (second.shape.size() == 2) {
        second.shape.insert(second.shape.begin(), 1);
        second.strides.insert(second.strides.begin(), 0);
    }
    const auto differs = [](std::string where, std::string what) {
        return Finding{Severity::error, "CROSS_CHECK_DIFFERS", std::move(where), std::move(what),
                       "do not use the file, and report it: one of the two readers is wrong"};
    };
    if (second.shape != native.tensor.shape || second.dtype != native.tensor.dtype) {
        return differs("", fmt::format("the native reader finds {} [{}], libtorch {} [{}]",
                                       name_of(native.tensor.dtype), fmt::join(native.tensor.shape, ", "),
                                       name_of(second.dtype), fmt::join(second.shape, ", ")));
    }
    if (const std::optional<std::string> where = first_difference(native.tensor, second)) {
        return differs(*where, "the native reader and libtorch read different values");
    }
    return std::nullopt;
}

}  // namespace eplb
