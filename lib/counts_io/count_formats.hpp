// What each count format offers to the table in count_file.cpp. One .cpp per format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/count_options.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"
#include "core/window_facts.hpp"
#include "counts_io/physical_slots.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

// What the last axis of decoded counts is.
enum class Columns { unknown, experts, slots };

// What a format's reader makes of a file: a tensor of any number of axes, and what it noticed.
struct DecodedCounts {
    Tensor tensor;
    Reduction reduction = Reduction::unknown;
    std::optional<std::string> saved_on;
    std::vector<Finding> findings;
    std::optional<WindowFacts> window = std::nullopt;  // where the format itself keeps the passes and their order
    Columns columns = Columns::unknown;                // experts or slots where the format defines it
    PhysicalSlots slots = {};                          // for Columns::slots
};

// Each throws Error{input} with a finding code and a place inside the file.
DecodedCounts read_pt_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_npy_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_hdf5_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_json_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_json_lines_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_msit_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_omni_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_sglang_csv_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_routed_ids(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_xllm_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
DecodedCounts read_trtllm_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);

// counts: contiguous [record slots, layers, experts], int32 or int64; rank: who writes them, where a format says so.
std::vector<std::byte> encode_pt_counts(const Tensor& counts, int rank);
std::vector<std::byte> encode_npy_counts(const Tensor& counts, int rank);
std::vector<std::byte> encode_hdf5_counts(const Tensor& counts, int rank);

// A per-pass dump, folded to logical experts with its layout. `load` reads a tensor of the archive.
struct PtPerPass;
struct PtTensor;
DecodedCounts fold_per_pass(const PtPerPass& dump, const std::function<Tensor(const PtTensor&)>& load);

bool looks_like_pt(std::span<const std::byte> bytes);  // a zip archive, or a bare pickle that the reader names
bool looks_like_json(std::span<const std::byte> bytes);
bool looks_like_json_lines(std::span<const std::byte> bytes);
bool looks_like_msit_csv(std::span<const std::byte> bytes);
bool looks_like_omni_text(std::span<const std::byte> bytes);
bool looks_like_sglang_csv(std::span<const std::byte> bytes);
bool looks_like_safetensors(std::span<const std::byte> bytes);

// The one array of a .pt, .npy, HDF5 or JSON file, for formats that say what such an array means.
DecodedCounts read_array(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);

// The counts of one JSON value, as a JSON count file and a line of JSON lines hold them.
class JsonValue;
DecodedCounts json_counts_of(const JsonValue& root, const CountOptions& options);

// The info that E was taken from the largest id.
Finding experts_not_stated(std::int64_t experts);

}  // namespace eplb
