#include "loader/checkpoint.hpp"

#include <fmt/format.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <unordered_map>

#include "core/error.hpp"
#include "files/json_document.hpp"

namespace eplb {
namespace {

namespace fs = std::filesystem;

// Base names, ascending: of the regular files, or of everything else (folders).
std::vector<std::string> names_in(const std::string& folder, bool files) {
    std::vector<std::string> names;
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
        std::error_code unknown;  // a link that leads nowhere, or to itself, is no file
        if (entry.is_regular_file(unknown) == files) names.push_back(entry.path().filename().string());
    }
    if (failed) throw Error(ErrorCode::input, folder, failed.message(), "name the folder of a checkpoint");
    std::sort(names.begin(), names.end());
    return names;
}

using WeightMap = std::unordered_map<std::string, std::string>;  // tensor -> shard

WeightMap read_index(const std::string& path, const std::string& text) {
    WeightMap shard_of;
    try {
        const JsonDocument document = JsonDocument::parse(text);
        for (const auto [name, shard] : document.root().at("weight_map").members()) {
            shard_of.emplace(name, shard.as_string());
        }
    } catch (...) {
        rethrow_inside(path);
    }
    return shard_of;
}

// The index that names the shards: under its usual name, else the only one under another.
std::string index_among(const std::string& folder, std::vector<std::string>& others,
                        std::vector<std::string>& left_out) {
    std::vector<std::string> indexes;
    std::erase_if(others, [&](const std::string& name) {
        if (name.ends_with(checkpoint_index_end)) indexes.push_back(name);
        return name.ends_with(checkpoint_index_end);
    });
    if (indexes.empty()) return "";
    auto chosen = std::find(indexes.begin(), indexes.end(), checkpoint_index_name);
    if (chosen == indexes.end() && indexes.size() > 1) {
        throw Error(ErrorCode::input, folder, fmt::format("has the indexes {}", fmt::join(indexes, ", ")),
                    fmt::format("leave one of them, or call it {}", checkpoint_index_name));
    }
    if (chosen == indexes.end()) chosen = indexes.begin();
    std::string name = *chosen;
    indexes.erase(chosen);
    left_out.insert(left_out.end(), indexes.begin(), indexes.end());
    return name;
}

// Experts are where config.json says, in those layers and in no others.
void require_expert_layers(const std::vector<int>& found, const Geometry& geometry, const ModelConfig& config) {
    std::vector<int> wanted;
    if (config.hidden_layers) {
        wanted = config.expert_layers();
    } else if (config.dense_layers) {
        for (int layer = *config.dense_layers; layer < geometry.layers; ++layer) wanted.push_back(layer);
    } else {
        return;
    }
    const auto [a, b] = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
    if (a == found.end() && b == wanted.end()) return;
    const bool extra = b == wanted.end() || (a != found.end() && *a < *b);
    throw Error(
        ErrorCode::input, fmt::format("layer {}", extra ? *a : *b),
        extra ? "has experts, config.json says that it has none" : "has no experts, config.json says that it has",
        "the checkpoint is incomplete, or named by another --family; --dense-layers where config.json does not say");
}

// The layout row of a model layer, and whether rows are all decoder layers.
std::vector<int> rows_of(const std::vector<int>& layers, const Geometry& geometry, const ModelConfig& config) {
    std::vector<int> rows;
    if (config.hidden_layers == geometry.layers || (!config.hidden_layers && layers.back() < geometry.layers)) {
        return layers;
    }
    const std::vector<int> expert_layers = config.expert_layers();
    if (static_cast<int>(expert_layers.size()) != geometry.layers) {
        throw Error(ErrorCode::input, "layout",
                    fmt::format("{} rows; the model has {} decoder layers, {} of them with experts", geometry.layers,
                                config.hidden_layers.value_or(0), expert_layers.size()),
                    "the layout was made for another model");
    }
    for (const int layer : layers) {
        const auto at = std::lower_bound(expert_layers.begin(), expert_layers.end(), layer);
        rows.push_back(static_cast<int>(at - expert_layers.begin()));
    }
    return rows;
}

class ExpertCollector {
  public:
    ExpertCollector(const Checkpoint& checkpoint, const ModelFamily& family, const Geometry& geometry)
        : checkpoint_(checkpoint), family_(family), experts_(static_cast<std::size_t>(geometry.experts)) {}

    void add(std::size_t shard, const SafetensorsEntry& entry) {
        const TensorRole role = role_of(family_, entry.name);
        using Kind = TensorRole::Kind;
        if (role.kind == Kind::expert) {
            if (static_cast<std::size_t>(role.expert) >= experts_) {
                fail(shard, entry, fmt::format("is of expert {}, the layout has {}", role.expert, experts_));
            }
            put(shard, entry, role, role.expert, entry.shape, entry.begin, entry.bytes());
        } else if (role.kind == Kind::stacked) {
            if (entry.shape.empty() || entry.shape[0] != static_cast<std::int64_t>(experts_)) {
                fail(shard, entry, fmt::format("has no first axis of {} experts", experts_));
            }
            const std::vector<std::int64_t> shape(entry.shape.begin() + 1, entry.shape.end());
            const std::uint64_t size = entry.bytes() / experts_;
            for (std::size_t expert = 0; expert < experts_; ++expert) {
                put(shard, entry, role, static_cast<int>(expert), shape, entry.begin + expert * size, size);
            }
        } else if (role.kind == Kind::undeclared && has_expert_axis(entry)) {
            suspects_.emplace_back(role.layer, entry.name);
        }
    }

    // By layer; every expert has every tensor.
    std::map<int, std::vector<ExpertTensors>> finish() {
        std::map<int, std::vector<ExpertTensors>> by_layer;
        for (auto& [layer, suffixes] : found_) {
            for (auto& [suffix, tensors] : suffixes) {
                for (std::size_t expert = 0; expert < experts_; ++expert) {
                    if (tensors.experts[expert].size != absent) continue;
                    throw Error(ErrorCode::input, checkpoint_.folder(),
                                fmt::format("layer {}: expert {} has no tensor {}", layer, expert, suffix),
                                "the checkpoint is incomplete, or the layout was made for another model");
                }
                by_layer[layer].push_back(std::move(tensors));
            }
        }
        for (const auto& [layer, name] : suspects_) {
            if (!by_layer.contains(layer)) continue;  // a dense layer
            throw Error(
                ErrorCode::input, checkpoint_.folder(),
                fmt::format("{} may hold something of every expert, and the family {} does not say whether it moves",
                            name, family_.name),
                "name it with --router-rows or --stacked of the generic family");
        }
        return by_layer;
    }

  private:
    static constexpr std::uint64_t absent = ~std::uint64_t{0};

    [[noreturn]] void fail(std::size_t shard, const SafetensorsEntry& entry, std::string what) const {
        throw Error(ErrorCode::input, fmt::format("{}: {}", checkpoint_.shards()[shard].path(), entry.name),
                    std::move(what), "the layout was made for another model");
    }

    // As many entries along any axis as experts, or a first axis that they divide: experts one after the other.
    bool has_expert_axis(const SafetensorsEntry& entry) const {
        const auto experts = static_cast<std::int64_t>(experts_);
        return !entry.shape.empty() &&
               (entry.shape[0] % experts == 0 ||
                std::find(entry.shape.begin(), entry.shape.end(), experts) != entry.shape.end());
    }

    void put(std::size_t shard, const SafetensorsEntry& entry, const TensorRole& role, int expert,
             const std::vector<std::int64_t>& shape, std::uint64_t begin, std::uint64_t size) {
        ExpertTensors& tensors = found_[role.layer][role.suffix];
        if (tensors.experts.empty()) {
            tensors = {role.suffix, entry.dtype, shape, {}};
            tensors.experts.resize(experts_, {0, 0, absent});
        } else if (tensors.dtype != entry.dtype || tensors.shape != shape) {
            fail(shard, entry,
                 fmt::format("is {} [{}], other experts have {} [{}]", entry.dtype, fmt::join(shape, ", "),
                             tensors.dtype, fmt::join(tensors.shape, ", ")));
        }
        tensors.experts[static_cast<std::size_t>(expert)] = {shard, begin, size};
    }

    const Checkpoint& checkpoint_;
    const ModelFamily& family_;
    std::size_t experts_;
    std::map<int, std::map<std::string, ExpertTensors>> found_;
    std::vector<std::pair<int, std::string>> suspects_;
};

}  // namespace

Checkpoint Checkpoint::open(const std::string& folder) {
    Checkpoint result;
    result.folder_ = folder;
    result.left_out_ = names_in(folder, false);
    for (const std::string& name : names_in(folder, true)) {
        (name.ends_with(".safetensors") ? result.names_ : result.other_files_).push_back(name);
    }
    result.index_name_ = index_among(folder, result.other_files_, result.left_out_);
    WeightMap shard_of;
    const std::string index_path = fmt::format("{}/{}", folder, result.index_name_);
    if (result.has_index()) {
        result.index_text_ = MappedFile::open(index_path)->text();
        shard_of = read_index(index_path, result.index_text_);
        std::set<std::string> indexed;
        for (const auto& [name, shard] : shard_of) indexed.insert(shard);
        for (const std::string& shard : indexed) {
            if (!std::binary_search(result.names_.begin(), result.names_.end(), shard)) {
                throw Error(ErrorCode::input, index_path, fmt::format("names the shard {}, which is not there", shard),
                            "complete the download");
            }
        }
        std::copy_if(result.names_.begin(), result.names_.end(), std::back_inserter(result.left_out_),
                     [&](const std::string& name) { return !indexed.contains(name); });
        result.names_.assign(indexed.begin(), indexed.end());
    }
    if (result.names_.empty()) {
        throw Error(ErrorCode::input, folder, "holds no safetensors file", "name the folder of a checkpoint");
    }
    WeightMap owner;
    for (const std::string& name : result.names_) {
        result.states_.push_back(state_of(folder + "/" + name));
        SafetensorsFile shard = SafetensorsFile::open(folder + "/" + name);
        for (const SafetensorsEntry& entry : shard.entries()) {
            const auto [first, fresh] = owner.emplace(entry.name, name);
            if (!fresh) {
                throw Error(ErrorCode::input, shard.path(), fmt::format("{} is also in {}", entry.name, first->second));
            }
        }
        result.shards_.push_back(std::move(shard));
    }
    for (const auto& [name, shard] : shard_of) {
        const auto found = owner.find(name);
        if (found == owner.end() || found->second != shard) {
            throw Error(ErrorCode::input, index_path, fmt::format("{} is not in {}", name, shard),
                        "index and shards are of different checkpoints");
        }
    }
    if (std::find(result.other_files_.begin(), result.other_files_.end(), "config.json") != result.other_files_.end()) {
        result.config_ = read_model_config(folder);
        result.has_config_ = true;
    }
    result.require_unchanged();
    return result;
}

Checkpoint::FileState Checkpoint::state_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw Error(ErrorCode::input, path, std::strerror(errno));
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
            status.st_mtim.tv_nsec};
}

void Checkpoint::require_unchanged() const {
    for (std::size_t shard = 0; shard < states_.size(); ++shard) {
        const std::string path = folder_ + "/" + names_[shard];
        if (state_of(path) == states_[shard]) continue;
        throw Error(ErrorCode::input, path, "was replaced or changed while it was read",
                    "run again when it is finished");
    }
}

void Checkpoint::state(std::optional<int> groups, std::optional<int> dense_layers) {
    const auto take = [](std::string_view flag, std::optional<int> stated, std::optional<int>& figure) {
        if (!stated) return;
        if (figure && *figure != *stated) {
            throw Error(ErrorCode::usage, std::string(flag), fmt::format("{}; config.json says {}", *stated, *figure));
        }
        figure = stated;
    };
    take("--groups", groups, config_.groups);
    take("--dense-layers", dense_layers, config_.dense_layers);
}

ExpertIndex index_experts(const Checkpoint& checkpoint, const ModelFamily& family, const Geometry& geometry) {
    const ModelConfig& config = checkpoint.config();
    if (config.experts && *config.experts != geometry.experts) {
        throw Error(ErrorCode::input, "layout",
                    fmt::format("{} experts; config.json says {}", geometry.experts, *config.experts),
                    "the layout was made for another model");
    }
    ExpertCollector collector(checkpoint, family, geometry);
    const int first_draft = config.hidden_layers.value_or(geometry.layers);
    std::set<int> draft;
    for (std::size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
        for (const SafetensorsEntry& entry : checkpoint.shards()[shard].entries()) {
            const TensorRole role = role_of(family, entry.name);
            if (role.layer >= first_draft) {
                if (role.kind == TensorRole::Kind::expert) draft.insert(role.layer);
            } else {
                collector.add(shard, entry);
            }
        }
    }
    ExpertIndex index;
    index.by_layer = collector.finish();
    index.draft_layers.assign(draft.begin(), draft.end());
    for (const auto& [layer, tensors] : index.by_layer) index.layers.push_back(layer);
    if (index.layers.empty()) {
        throw Error(ErrorCode::input, checkpoint.folder(), fmt::format("no tensor is named like '{}'", family.expert),
                    "name another --family");
    }
    require_expert_layers(index.layers, geometry, config);
    index.rows = rows_of(index.layers, geometry, config);
    return index;
}

}  // namespace eplb
