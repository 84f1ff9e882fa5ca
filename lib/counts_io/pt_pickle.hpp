// What the pickle of a torch file says about tensors: which one holds the counts, and how it lies in its storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/count_options.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"
#include "counts_io/count_formats.hpp"
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

struct PtLayer {
    std::int64_t layer = 0;
    PtTensor tensor;  // [experts] or [record slots, experts]
};

struct PtChoice {
    PtTensor tensor;
    std::optional<PtTensor> map;  // where `tensor` counts physical slots: the layout beside it
    std::vector<PtLayer> layers;  // where each layer has a tensor of its own; `tensor` is then empty
    Reduction reduction = Reduction::unknown;
    Columns columns = Columns::unknown;
    std::vector<Finding> findings;
};

// A per-pass or per-token dump of SGLang's recorder: one rank's physical counts of each forward pass, or the physical
// slots that each token was sent to, and the last layout.
struct PtRecord {
    std::int64_t pass = 0;
    PtTensor tensor;   // counts [layers, physical slots], or ids [layers, tokens, top-k], -1 where there is none
    bool ids = false;  // which of the two
};
struct PtPerPass {
    int rank = 0;
    std::vector<PtRecord> records;  // ascending by pass
    PtTensor map;                   // physical_to_logical_map, [layers, physical slots]
};

// Parses the pickle under the allow-list of torch: tensor constructors, storage types, dtypes, and those of torch_npu.
// What it may cost grows with the file of `file_bytes` that holds it, since counts are many times its size.
Pickle read_pt_pickle(std::span<const std::byte> bytes, std::uint64_t file_bytes);

// The counts: the tensor under --dataset, else under "logical_count", else the only tensor beside
// "physical_to_logical_map", else a tensor for each layer (keys that are layers' numbers, or a list of one-axis
// tensors), else the only tensor with two or three axes. Throws Error{input}: NOT_A_COUNT_FILE when there is none or a
// choice, MALFORMED.
PtChoice choose_counts(const Pickle& pickle, const CountOptions& options);

// Empty when the pickle is no per-pass or per-token dump. Throws Error{input} MALFORMED for passes of several ranks, a
// pass twice, and records without what a per-pass dump holds.
std::optional<PtPerPass> find_per_pass(const Pickle& pickle);

// Makes sure that tensors which are read together lie apart in the file: were one storage shared by many of them, a
// small file could stand for any number of counts.
class SeparateStorages {
  public:
    // Throws Error{input} BAD_GEOMETRY at `where` once the tensors have more elements than their storages.
    void add(const PtTensor& tensor, const std::string& where);

  private:
    std::set<std::string> storages_;
    std::int64_t elements_ = 0;
};

}  // namespace eplb
