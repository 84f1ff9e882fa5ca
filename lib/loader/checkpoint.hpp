// A checkpoint folder as Hugging Face lays it out: safetensors shards, an index, config.json and other small files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.hpp"
#include "files/safetensors.hpp"
#include "loader/model_config.hpp"
#include "loader/model_family.hpp"

namespace eplb {

class Checkpoint {
  public:
    // Reads the index, config.json and every shard's header. Throws Error{input} when a shard is missing, the index
    // names a tensor that its shard does not hold, or two shards hold the same name.
    static Checkpoint open(const std::string& folder);

    const std::string& folder() const { return folder_; }
    const ModelConfig& config() const { return config_; }
    const std::vector<SafetensorsFile>& shards() const { return shards_; }            // in the order of their names
    const std::string& shard_name(std::size_t shard) const { return names_[shard]; }  // base name
    const std::vector<std::string>& other_files() const { return other_files_; }      // base names, ascending
    // What is no part of it: folders, and safetensors files that the index does not name.
    const std::vector<std::string>& left_out() const { return left_out_; }
    bool has_index() const { return !index_name_.empty(); }
    const std::string& index_name() const { return index_name_; }  // base name
    const std::string& index_text() const { return index_text_; }
    bool has_config() const { return has_config_; }

    // What the user says where config.json does not. Throws Error{usage} where it says something else.
    void state(std::optional<int> groups, std::optional<int> dense_layers);

    // Throws Error{input} when a shard is no longer the file whose header was read.
    void require_unchanged() const;

  private:
    struct FileState {
        std::uint64_t device = 0, inode = 0, bytes = 0;
        std::int64_t seconds = 0, nanoseconds = 0;  // of the last change
        bool operator==(const FileState&) const = default;
    };
    static FileState state_of(const std::string& path);

    std::string folder_, index_name_, index_text_;
    bool has_config_ = false;
    ModelConfig config_;
    std::vector<SafetensorsFile> shards_;
    std::vector<FileState> states_;  // of the shards
    std::vector<std::string> names_, other_files_, left_out_;
};

inline constexpr std::string_view checkpoint_index_name = "model.safetensors.index.json";
inline constexpr std::string_view checkpoint_index_end = ".safetensors.index.json";  // of indexes by other names

// Where the bytes of one tensor, or of one expert's part of a stacked tensor, lie.
struct TensorBytes {
    std::size_t shard = 0;
    std::uint64_t begin = 0, size = 0;  // in the shard's data region
};

// One kind of expert tensor in one layer: the same type and shape for every expert.
struct ExpertTensors {
    std::string suffix, dtype;
    std::vector<std::int64_t> shape;   // of one expert
    std::vector<TensorBytes> experts;  // [E]
};

// The expert tensors of a checkpoint, by model layer. Layers outside the layout (draft layers) are left out.
struct ExpertIndex {
    std::vector<int> layers;                             // model layer of every row that has experts, ascending
    std::vector<int> rows;                               // the layout row of each of them
    std::map<int, std::vector<ExpertTensors>> by_layer;  // suffixes ascending
    std::vector<int> draft_layers;                       // layers with experts behind the layout's rows
};

// Finds every expert of every layer, complete: throws Error{input} when a layer lacks an expert's tensor, when types or
// shapes differ between experts, when a tensor of a MoE block has E as its first extent and the family does not know
// it, when the layout's rows are neither the decoder layers nor those that have experts, or when other layers have
// experts than config.json says.
ExpertIndex index_experts(const Checkpoint& checkpoint, const ModelFamily& family, const Geometry& geometry);

}  // namespace eplb
