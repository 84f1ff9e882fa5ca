#include "loader/bake_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.hpp"
#include "files/mapped_file.hpp"
#include "loader/checkpoint_record.hpp"

namespace eplb {
namespace {

namespace fs = std::filesystem;
using RoleKind = TensorRole::Kind;

// Hands every tensor of the checkpoint to `take`, with its shard and role.
template <typename Take>
void for_each_tensor(const Checkpoint& checkpoint, const ModelFamily& family, const Take& take) {
    for (const SafetensorsFile& shard : checkpoint.shards()) {
        for (const SafetensorsEntry& entry : shard.entries()) take(shard, entry, role_of(family, entry.name));
    }
}

void require_names(const Checkpoint& checkpoint, const std::vector<std::string>& names,
                   const std::set<std::string>& found, std::string_view flag) {
    for (const std::string& name : names) {
        if (found.contains(name)) continue;
        throw Error(ErrorCode::input, checkpoint.folder(), fmt::format("no layer with experts has a tensor {}", name),
                    fmt::format("see {} and --block-names", flag));
    }
}

// The folder that a path names, whatever links lead to it.
fs::path real(const std::string& path) {
    std::error_code failed;
    const fs::path result = fs::weakly_canonical(path, failed);
    return failed ? fs::absolute(path) : result;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

void require_routers(const Checkpoint& checkpoint, const ModelFamily& family, const ExpertIndex& index, int experts) {
    if (family.router_rows.empty()) {
        throw Error(ErrorCode::usage, "--router-rows", "no router is named: experts would change places behind it",
                    "name every router tensor that has a row for each expert");
    }
    std::set<int> routed;
    std::set<std::string> rows, ids;
    for_each_tensor(checkpoint, family,
                    [&](const SafetensorsFile& shard, const SafetensorsEntry& entry, const TensorRole& role) {
                        if (!index.by_layer.contains(role.layer)) return;
                        if (role.kind == RoleKind::router_ids) ids.insert(role.suffix);
                        if (role.kind != RoleKind::router_rows) return;
                        rows.insert(role.suffix);
                        if (entry.shape.empty() || entry.shape[0] != experts) {
                            throw Error(ErrorCode::input, fmt::format("{}: {}", shard.path(), entry.name),
                                        fmt::format("is [{}], a router has one row for each of the {} experts",
                                                    fmt::join(entry.shape, ", "), experts),
                                        "a transposed router cannot be baked");
                        }
                        if (role.suffix == family.router_rows.front()) routed.insert(role.layer);
                    });
    for (const int layer : index.layers) {
        if (routed.contains(layer)) continue;
        throw Error(
            ErrorCode::input, checkpoint.folder(),
            fmt::format("layer {} has experts and no router {}{}", layer, family.block, family.router_rows.front()),
            "experts would change places behind it: name the family, or --block-names and --router-rows");
    }
    if (family.name != "generic") return;
    require_names(checkpoint, family.router_rows, rows, "--router-rows");
    require_names(checkpoint, family.router_ids, ids, "--router-ids");
}

void require_stacked(const Checkpoint& checkpoint, const ModelFamily& family) {
    if (family.name != "generic") return;
    std::set<std::string> found;
    for_each_tensor(checkpoint, family, [&](const SafetensorsFile&, const SafetensorsEntry&, const TensorRole& role) {
        if (role.kind == RoleKind::stacked) found.insert(role.suffix);
    });
    require_names(checkpoint, family.stacked, found, "--stacked");
}

std::string require_unbaked(const Checkpoint& checkpoint, bool compose) {
    const std::string path = fmt::format("{}/{}", checkpoint.folder(), checkpoint_record_name);
    if (!fs::exists(path)) {
        if (!compose) return "";
        throw Error(ErrorCode::usage, "--compose", fmt::format("{} was not baked", checkpoint.folder()),
                    "leave the flag out");
    }
    CheckpointRecord record;
    try {
        record = decode_checkpoint_record(MappedFile::open(path)->text());
    } catch (const Error& error) {
        throw error.inside(path);
    }
    if (!compose || record.kind != "bake") {
        throw Error(ErrorCode::input, path,
                    fmt::format("this checkpoint was written by eplb-load {} for the layout with map hash {}",
                                record.kind, record.map_hash),
                    "bake the original, or give --compose for a layout that was fitted on counts of this one");
    }
    return fmt::format(
        "composed: the source's expert p is expert map[p] of a layout with map hash {} (file {}), and of what that was "
        "baked from; apply this layout after that one",
        record.map_hash, record.layout_sha256);
}

void require_replaceable(const std::string& out, const Checkpoint& checkpoint, const std::string& layout) {
    std::error_code ignored;
    const fs::file_status status = fs::symlink_status(out, ignored);
    if (status.type() == fs::file_type::not_found) return;
    if (status.type() != fs::file_type::directory) {
        throw Error(ErrorCode::output, out, "is no folder", "--force replaces only a folder that eplb-load wrote");
    }
    const fs::path folder = real(out);
    for (const std::string& input : {checkpoint.folder(), layout}) {
        if (lies_in(real(input), folder)) {
            throw Error(ErrorCode::output, out, fmt::format("holds the input {}", input), "name another folder");
        }
    }
    for (const SafetensorsFile& shard : checkpoint.shards()) {
        if (lies_in(real(shard.path()), folder)) {
            throw Error(ErrorCode::output, out, fmt::format("holds the input {}", shard.path()), "name another folder");
        }
    }
    try {
        decode_checkpoint_record(MappedFile::open(fmt::format("{}/{}", out, checkpoint_record_name))->text());
    } catch (const Error& error) {
        throw Error(ErrorCode::output, out,
                    fmt::format("has no {} that can be read ({})", checkpoint_record_name, error.message()),
                    "--force replaces only a folder that eplb-load wrote; remove it yourself");
    }
}

}  // namespace eplb
