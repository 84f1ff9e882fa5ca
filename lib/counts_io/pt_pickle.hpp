// What the pickle of a torch file says about tensors: which one holds the counts, and how it lies in its storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/count_options.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"
#include "files/pickle.hpp"

namespace eplb {

struct PtStorage {
    std::string key;            // its record is <root>/data/<key>
    std::string location;       // device that it was saved from: "cpu", "npu:0"
    std::int64_t elements = 0;  // of the tensor's type
    std::size_t element_size = 1;

    std::int64_t bytes() const { return elements * static_cast<std::int64_t>(element_size); }
};

struct PtTensor {
    std::string path;  // "['logical_count']"; empty for a bare tensor
    DType dtype = DType::int64;
    PtStorage storage;
    std::int64_t offset = 0;                   // elements into the storage; unchecked, like shape and strides
    std::vector<std::int64_t> shape, strides;  // of equal length

    std::string describe() const;  // "int32 [512, 43, 256]"
};

struct PtChoice {
    PtTensor tensor;
    Reduction reduction = Reduction::unknown;
    std::vector<Finding> findings;
};

// Parses the pickle under the allow-list of torch: tensor constructors, storage types, dtypes, and those of torch_npu.
Pickle read_pt_pickle(std::span<const std::byte> bytes);

// The counts: the tensor under --dataset, else under "logical_count", else the only tensor with two or three axes.
// Throws Error{input}: NOT_A_COUNT_FILE when there is none or a choice, UNSUPPORTED_FILE for per-pass dumps, MALFORMED.
PtChoice choose_counts(const Pickle& pickle, const CountOptions& options);

}  // namespace eplb
