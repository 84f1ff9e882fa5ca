#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/app.hpp"
#include "cli/progress_bar.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/json_text.hpp"
#include "loader/bake.hpp"
#include "loader/legal_layout.hpp"
#include "run.hpp"

namespace eplb {
namespace {

ModelFamily generic_family(const CheckpointOptions& options) {
    if (!options.expert_names) {
        throw Error(ErrorCode::usage, "--family generic", "needs --expert-names", "with {layer} and {expert} in it");
    }
    for (const std::string_view hole : {"{layer}", "{expert}"}) {
        if (options.expert_names->find(hole) == std::string::npos) {
            throw Error(ErrorCode::usage, "--expert-names", fmt::format("'{}' has no {}", *options.expert_names, hole));
        }
    }
    ModelFamily family;
    family.name = "generic";
    family.expert = *options.expert_names;
    family.block = options.block_names.value_or(family.expert.substr(0, family.expert.find("{expert}")));
    family.stacked = options.stacked;
    family.router_rows = options.router_rows;
    family.router_ids = options.router_ids;
    return family;
}

ModelFamily family_of(const CheckpointOptions& options, const Checkpoint& checkpoint) {
    if (options.family == "generic" || (!options.family && options.expert_names)) return generic_family(options);
    if (options.expert_names || options.block_names || !options.stacked.empty() || !options.router_rows.empty() ||
        !options.router_ids.empty()) {
        throw Error(ErrorCode::usage, "--family", "names of tensors are given for the generic family only");
    }
    if (options.family) return find_model_family(*options.family);
    const std::string& type = checkpoint.config().model_type;
    if (const ModelFamily* family = family_of_model_type(type)) return *family;
    throw Error(ErrorCode::input, checkpoint.folder() + "/config.json",
                fmt::format("model_type '{}' is of no known family", type), "name one with --family");
}

// Without config.json nobody but the user knows which layers have experts, and whether routing is limited to groups.
void require_stated(const CheckpointOptions& options, const Checkpoint& checkpoint, bool bake) {
    if (checkpoint.has_config()) return;
    const bool groups_unknown = bake && !options.groups;
    if (options.dense_layers && !groups_unknown) return;
    throw Error(ErrorCode::usage, groups_unknown ? "--groups" : "--dense-layers",
                fmt::format("{} has no config.json that says it", checkpoint.folder()),
                groups_unknown ? "give the number of expert groups that routing is limited to, 1 for none"
                               : "give the number of leading layers without experts, 0 for none");
}

std::string json_of(const CheckpointRecord& record) {
    nlohmann::ordered_json json;
    json["tool"] = "eplb-load " + record.kind;
    json["version"] = version();
    json["record"] = nlohmann::ordered_json::parse(encode_checkpoint_record(record));
    return json_text(json, 2);
}

std::string text_of(const CheckpointOptions& options, const CheckpointRecord& record) {
    std::uint64_t bytes = 0;
    for (const CheckpointRecord::File& file : record.files) bytes += file.bytes;
    std::string text = fmt::format("{}: {} files, {:.3f} GB, hashes in {}\n", printable(options.out),
                                   record.files.size(), static_cast<double>(bytes) / 1e9, checkpoint_record_name);
    for (const std::string& note : record.notes) text += fmt::format("  note: {}\n", note);
    return text;
}

}  // namespace

int run_checkpoint(const CheckpointOptions& options) {
    LayoutDemands demands;
    demands.ranks = options.ranks;
    demands.allow_no_manifest = options.allow_no_manifest;
    const LegalLayout layout = read_legal_layout(options.layout, demands);
    Checkpoint checkpoint = Checkpoint::open(options.checkpoint);
    const ModelFamily family = family_of(options, checkpoint);
    const bool bake = options.kind == CheckpointOptions::Kind::bake;
    require_stated(options, checkpoint, bake);
    checkpoint.state(options.groups, options.dense_layers);
    const Progress progress = cli::progress_bar(bake ? "shards" : "ranks");
    const CheckpointRecord record =
        bake ? bake_checkpoint(checkpoint, family, layout.file, options.out, options.force, progress, options.compose)
             : write_rank_slots(checkpoint, family, layout.file, options.out, options.force, progress);
    cli::print(options.common.json ? json_of(record) : text_of(options, record));
    return 0;
}

}  // namespace eplb
