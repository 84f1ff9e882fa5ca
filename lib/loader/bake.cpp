#include "loader/bake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"
#include "files/output_folder.hpp"
#include "files/range_reader.hpp"
#include "layout_io/manifest.hpp"
#include "loader/bake_rules.hpp"

namespace eplb {
namespace {

// What happens to the experts of one layer: expert `from[p]` becomes expert p.
struct LayerPermutation {
    std::vector<int> from, to;  // to[from[p]] == p
};

std::map<int, LayerPermutation> permutations_of(const Layout& layout, const ExpertIndex& index) {
    std::map<int, LayerPermutation> permutations;
    for (std::size_t at = 0; at < index.layers.size(); ++at) {
        LayerPermutation& permutation = permutations[index.layers[at]];
        for (const ExpertId expert : layout.row(index.rows[at])) permutation.from.push_back(expert.value);
        permutation.to.resize(permutation.from.size());
        for (std::size_t p = 0; p < permutation.from.size(); ++p) {
            permutation.to[static_cast<std::size_t>(permutation.from[p])] = static_cast<int>(p);
        }
    }
    return permutations;
}

// Copies ranges of files into the folder's open file.
class Copier {
  public:
    explicit Copier(OutputFolder& folder) : folder_(folder) {}

    void copy(const std::string& path, std::uint64_t begin, std::uint64_t size) {
        reader_.read(path, begin, size, [&](std::span<const std::byte> piece) { folder_.write(piece); });
    }
    // Of a shard's data region.
    void copy(const SafetensorsFile& shard, std::uint64_t begin, std::uint64_t size) {
        copy(shard.file()->reopen_path(), shard.data_offset() + begin, size);
    }
    std::vector<std::byte> bytes_of(const SafetensorsFile& shard, const SafetensorsEntry& entry) {
        std::vector<std::byte> bytes;
        bytes.reserve(entry.bytes());
        reader_.read(shard.file()->reopen_path(), shard.data_offset() + entry.begin, entry.bytes(),
                     [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
        return bytes;
    }
    OutputFolder& folder() { return folder_; }

  private:
    OutputFolder& folder_;
    RangeReader reader_;
};

template <typename Id>
void rename_ids(std::span<std::byte> bytes, const std::vector<int>& to, const std::string& where) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Id)) {
        Id id;
        std::memcpy(&id, bytes.data() + at, sizeof id);
        if (id < 0 || static_cast<std::uint64_t>(id) >= to.size()) {
            throw Error(ErrorCode::input, where, fmt::format("value {} at index {} is no expert", id, at / sizeof(Id)));
        }
        id = static_cast<Id>(to[static_cast<std::size_t>(id)]);
        std::memcpy(bytes.data() + at, &id, sizeof id);
    }
}

// Copies a shard under new names. Experts' bytes stay where they are: an expert moves by taking another name.
class ShardBaker {
  public:
    ShardBaker(const ModelFamily& family, const std::map<int, LayerPermutation>& permutations)
        : family_(family), permutations_(permutations) {}

    std::vector<SafetensorsEntry> renamed(const SafetensorsFile& shard) const {
        std::vector<SafetensorsEntry> entries = shard.entries();
        for (SafetensorsEntry& entry : entries) {
            const TensorRole role = role_of(family_, entry.name);
            const auto permutation = permutations_.find(role.layer);
            if (role.kind != TensorRole::Kind::expert || permutation == permutations_.end()) continue;
            const int position = permutation->second.to[static_cast<std::size_t>(role.expert)];
            entry.name = expert_tensor_name(family_, role.layer, position, role.suffix);
        }
        return entries;
    }

    void write(const SafetensorsFile& shard, Copier& copier) const {
        copier.folder().write(encode_safetensors_header(renamed(shard), shard.metadata()));
        std::uint64_t pending = 0;  // everything from here to the current tensor is copied as it is
        std::uint64_t end = 0;
        for (const SafetensorsEntry& entry : shard.entries()) {
            end = entry.end;
            const TensorRole role = role_of(family_, entry.name);
            const auto permutation = permutations_.find(role.layer);
            using Kind = TensorRole::Kind;
            if (permutation == permutations_.end() ||
                (role.kind != Kind::router_rows && role.kind != Kind::router_ids && role.kind != Kind::stacked)) {
                continue;
            }
            copier.copy(shard, pending, entry.begin - pending);
            pending = entry.end;
            if (role.kind == Kind::router_ids) {
                write_ids(shard, entry, permutation->second, copier);
            } else {
                write_rows(shard, entry, permutation->second, copier);
            }
        }
        copier.copy(shard, pending, end - pending);
    }

  private:
    static void write_rows(const SafetensorsFile& shard, const SafetensorsEntry& entry,
                           const LayerPermutation& permutation, Copier& copier) {
        const std::size_t experts = permutation.from.size();
        if (entry.shape.empty() || entry.shape[0] != static_cast<std::int64_t>(experts)) {
            throw Error(ErrorCode::input, fmt::format("{}: {}", shard.path(), entry.name),
                        fmt::format("has no first axis of {} experts", experts));
        }
        const std::uint64_t row = entry.bytes() / experts;
        for (const int from : permutation.from) {
            copier.copy(shard, entry.begin + static_cast<std::uint64_t>(from) * row, row);
        }
    }

    static void write_ids(const SafetensorsFile& shard, const SafetensorsEntry& entry,
                          const LayerPermutation& permutation, Copier& copier) {
        std::vector<std::byte> bytes = copier.bytes_of(shard, entry);
        const std::string where = fmt::format("{}: {}", shard.path(), entry.name);
        if (entry.dtype == "I64") {
            rename_ids<std::int64_t>(bytes, permutation.to, where);
        } else if (entry.dtype == "I32") {
            rename_ids<std::int32_t>(bytes, permutation.to, where);
        } else {
            throw Error(ErrorCode::input, where, fmt::format("holds expert ids as {}", entry.dtype),
                        "I32 and I64 are understood");
        }
        copier.folder().write(bytes);
    }

    const ModelFamily& family_;
    const std::map<int, LayerPermutation>& permutations_;
};

std::string rewritten_index(const Checkpoint& checkpoint, const ShardBaker& baker) {
    // Sorted keys: a document that keeps their order looks each one up from the front.
    nlohmann::json index = nlohmann::json::parse(checkpoint.index_text());
    nlohmann::json& shard_of = index["weight_map"] = nlohmann::json::object();
    for (std::size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
        for (const SafetensorsEntry& entry : baker.renamed(checkpoint.shards()[shard])) {
            shard_of[entry.name] = checkpoint.shard_name(shard);
        }
    }
    return index.dump(2) + "\n";
}

CheckpointRecord start_record(std::string kind, const Checkpoint& checkpoint, const ModelFamily& family,
                              const LayoutFile& layout) {
    CheckpointRecord record;
    record.kind = std::move(kind);
    record.tool_version = version();
    record.layout_sha256 = layout.sha256;
    record.map_hash = map_hash(layout.layout);
    record.family = family.name;
    record.geometry = layout.layout.geometry();
    if (checkpoint.has_index()) record.source_index_sha256 = sha256_hex(checkpoint.index_text());
    const auto& others = checkpoint.other_files();
    if (std::find(others.begin(), others.end(), "config.json") != others.end()) {
        record.source_config_sha256 = sha256_hex(MappedFile::open(checkpoint.folder() + "/config.json")->bytes());
    }
    return record;
}

// The record names every file, and whoever checks the hashes must find it under that name.
void require_names_for_the_record(const Checkpoint& checkpoint) {
    const auto require = [&](const std::string& name) {
        if (printable(name) == name) return;
        throw Error(ErrorCode::input, checkpoint.folder() + "/" + name,
                    fmt::format("its name cannot stand in {}: it is no UTF-8 text", checkpoint_record_name),
                    "rename or remove it");
    };
    for (std::size_t shard = 0; shard < checkpoint.shards().size(); ++shard) require(checkpoint.shard_name(shard));
    for (const std::string& name : checkpoint.other_files()) require(name);
}

void note_draft_layers(const ExpertIndex& index, CheckpointRecord& record) {
    if (index.draft_layers.empty()) return;
    record.notes.push_back(fmt::format("draft layers {} have experts and no row in the layout: left as they are",
                                       fmt::join(index.draft_layers, ", ")));
}

void finish_file(OutputFolder& folder, CheckpointRecord& record, const std::string& name) {
    const WrittenFile written = folder.close();
    record.files.push_back({name, written.sha256, written.bytes});
}

void require_going(const Progress& progress, int done, int total) {
    if (progress.report) progress.report(done, total, 0);
    if (progress.stop()) throw Interrupted{};
}

// Every file has its size, every shard its header, and the index names what is in the shards. Contents are not read
// again: their hashes are those of the bytes that were handed to the system.
void require_readable(const std::string& folder, const CheckpointRecord& record) {
    for (const CheckpointRecord::File& file : record.files) {
        const std::string path = folder + "/" + file.name;
        if (std::filesystem::file_size(path) != file.bytes) {
            throw Error(ErrorCode::output, path, fmt::format("has not the {} bytes that were written", file.bytes));
        }
        if (file.name.ends_with(".safetensors")) SafetensorsFile::open(path);
    }
    if (record.kind == "bake") Checkpoint::open(folder);
}

void finish_folder(OutputFolder& folder, const Checkpoint& checkpoint, const CheckpointRecord& record,
                   const std::string& out) {
    checkpoint.require_unchanged();
    folder.open(std::string(checkpoint_record_name));
    folder.write(encode_checkpoint_record(record));
    folder.close();
    try {
        require_readable(folder.temporary(), record);
    } catch (const std::exception& error) {
        throw Error(ErrorCode::output, out, fmt::format("cannot be read back: {}", error.what()), "check the disk");
    }
    folder.commit();
}

}  // namespace

void require_bakeable(const Layout& layout, const std::vector<int>& rows, int groups) {
    const Geometry& geometry = layout.geometry();
    if (geometry.redundant_total() != 0) {
        throw Error(ErrorCode::infeasible, "layout",
                    fmt::format("{} redundant slots: a checkpoint without a runtime map holds every expert once",
                                geometry.redundant_total()),
                    "fit with --redundant-total 0, or use eplb-load slots");
    }
    if (groups <= 1) return;
    if (geometry.experts % groups != 0) {
        throw Error(ErrorCode::infeasible, "layout",
                    fmt::format("{} experts do not form {} groups", geometry.experts, groups));
    }
    const int size = geometry.experts / groups;
    for (const int row : rows) {
        const auto slots = layout.row(row);
        for (int slot = 0; slot < geometry.experts; ++slot) {
            const int first = slots[static_cast<std::size_t>(slot / size * size)].value;
            const int expert = slots[static_cast<std::size_t>(slot)].value;
            if (expert / size == first / size) continue;
            throw Error(
                ErrorCode::infeasible, fmt::format("layout, row {}, slot {}", row, slot),
                fmt::format(
                    "puts expert {} of routing group {} beside expert {} of group {}; the router picks among {} "
                    "groups first and would choose other experts",
                    expert, expert / size, first, first / size, groups),
                "only a permutation that keeps groups together can be baked; load this layout with a runtime map");
        }
    }
}

CheckpointRecord bake_checkpoint(const Checkpoint& checkpoint, const ModelFamily& family, const LayoutFile& layout,
                                 const std::string& out, bool force, const Progress& progress, bool compose) {
    const std::string composed = require_unbaked(checkpoint, compose);
    if (force) require_replaceable(out, checkpoint, layout.path);
    const ExpertIndex index = index_experts(checkpoint, family, layout.layout.geometry());
    require_stacked(checkpoint, family);
    require_routers(checkpoint, family, index, layout.layout.geometry().experts);
    require_bakeable(layout.layout, index.rows, checkpoint.config().groups.value_or(1));
    const std::map<int, LayerPermutation> permutations = permutations_of(layout.layout, index);
    const ShardBaker baker(family, permutations);
    require_names_for_the_record(checkpoint);
    CheckpointRecord record = start_record("bake", checkpoint, family, layout);
    if (!composed.empty()) record.notes.push_back(composed);
    note_draft_layers(index, record);
    if (!checkpoint.left_out().empty()) {
        record.notes.push_back(fmt::format("left out, folders and files that the index does not name: {}",
                                           printable(fmt::format("{}", fmt::join(checkpoint.left_out(), ", ")))));
    }

    OutputFolder folder(out, force);
    Copier copier(folder);
    const int total = static_cast<int>(checkpoint.shards().size());
    for (int shard = 0; shard < total; ++shard) {
        require_going(progress, shard, total);
        const std::string& name = checkpoint.shard_name(static_cast<std::size_t>(shard));
        folder.open(name);
        baker.write(checkpoint.shards()[static_cast<std::size_t>(shard)], copier);
        finish_file(folder, record, name);
    }
    for (const std::string& name : checkpoint.other_files()) {
        if (name == checkpoint_record_name) continue;  // of an earlier bake: ours replaces it
        folder.open(name);
        const std::string path = checkpoint.folder() + "/" + name;
        copier.copy(path, 0, std::filesystem::file_size(path));
        finish_file(folder, record, name);
    }
    if (checkpoint.has_index()) {
        folder.open(checkpoint.index_name());
        folder.write(rewritten_index(checkpoint, baker));
        finish_file(folder, record, checkpoint.index_name());
    }
    finish_folder(folder, checkpoint, record, out);
    return record;
}

CheckpointRecord write_rank_slots(const Checkpoint& checkpoint, const ModelFamily& family, const LayoutFile& layout,
                                  const std::string& out, bool force, const Progress& progress) {
    const Geometry& geometry = layout.layout.geometry();
    require_unbaked(checkpoint, false);
    if (force) require_replaceable(out, checkpoint, layout.path);
    const ExpertIndex index = index_experts(checkpoint, family, geometry);
    require_stacked(checkpoint, family);
    CheckpointRecord record = start_record("slots", checkpoint, family, layout);
    note_draft_layers(index, record);
    OutputFolder folder(out, force);
    Copier copier(folder);
    for (int rank = 0; rank < geometry.ranks; ++rank) {
        require_going(progress, rank, geometry.ranks);
        std::vector<SafetensorsEntry> entries;
        for (const auto& [layer, kinds] : index.by_layer) {
            for (const ExpertTensors& tensors : kinds) {
                SafetensorsEntry entry{stacked_tensor_name(family, layer, tensors.suffix), tensors.dtype, {}, 0, 0};
                entry.shape.push_back(geometry.slots_per_rank);
                entry.shape.insert(entry.shape.end(), tensors.shape.begin(), tensors.shape.end());
                entries.push_back(std::move(entry));
            }
        }
        place_back_to_back(entries);
        const std::string name = fmt::format("rank-{:05}-of-{:05}.safetensors", rank, geometry.ranks);
        folder.open(name);
        folder.write(encode_safetensors_header(entries, {{"eplb_layout_sha256", layout.sha256},
                                                         {"eplb_map_hash", record.map_hash},
                                                         {"eplb_rank", fmt::to_string(rank)},
                                                         {"eplb_ranks", fmt::to_string(geometry.ranks)},
                                                         {"eplb_expert_prefix", stacked_prefix(family)}}));
        for (std::size_t at = 0; at < index.layers.size(); ++at) {
            const auto row = layout.layout.row(index.rows[at])
                                 .subspan(static_cast<std::size_t>(rank * geometry.slots_per_rank),
                                          static_cast<std::size_t>(geometry.slots_per_rank));
            for (const ExpertTensors& tensors : index.by_layer.at(index.layers[at])) {
                for (const ExpertId expert : row) {
                    const TensorBytes& bytes = tensors.experts[static_cast<std::size_t>(expert.value)];
                    copier.copy(checkpoint.shards()[bytes.shard], bytes.begin, bytes.size);
                }
            }
        }
        finish_file(folder, record, name);
    }
    finish_folder(folder, checkpoint, record, out);
    return record;
}

}  // namespace eplb
