#include "options.hpp"

#include <fmt/format.h>

#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"
#include "dispatch/model.hpp"
#include "dispatch/sglang_releases.hpp"
#include "loader/model_family.hpp"
#include "loader/server_facts.hpp"

namespace eplb {
namespace {

void add_check(CLI::App& app, CheckOptions& options) {
    app.add_option("LAYOUT", options.layout, "Layout, X.json with X.manifest.json beside it")->required();
    app.add_option("--table", options.table, "Dispatch table to load, .npy int32 [R, L, E]");
    app.add_option("--current", options.current, "Layout in force now, a file or trivial: counts what would move");
    std::string engines;
    for (const EngineProfile& profile : engine_profiles()) {
        engines += fmt::format("\n{}: {}", profile.name, profile.summary);
    }
    app.add_option("--engine", options.engine, "Serving engine:" + engines)->capture_default_str();
    app.add_option("--model-config", options.model_config, "The model's config.json, or the folder that holds it");
    app.add_option("--server-args", options.server_args,
                   "File with the server's arguments: its command line, or a JSON object; - is stdin");
    for (const FactName& fact : fact_names()) {
        app.add_option_function<std::string>(
               fmt::format("--{}", fact.name),
               [&options, name = fact.name](const std::string& value) { options.facts.emplace_back(name, value); },
               std::string(fact.summary))
            ->group("What the server is");
    }
    app.add_flag("--allow-no-manifest", options.allow_no_manifest, "Admit a layout that has no manifest");
    app.add_option("--attest", options.attest, "Write the attestation of an admitted layout to this file");
    app.add_option("--expect", options.expect, "Attestation that must still hold, from an earlier --attest");
    app.add_flag("--force", options.force, "Replace the file of --attest if it exists");
    cli::add_common_options(app, options.common,
                            "  eplb-load check layout.json --engine sglang --server-args serve.sh --model-config MODEL "
                            "--role prefill --quant w8a8 --dispatch sglang-c --nodes 2\n"
                            "  eplb-load check layout.json --ranks 16 --layers 61 --experts 256 --redundant-total 16 "
                            "--dispatch even --quant w8a8 --role decode --attest layout.attest.json");
}

void add_table(CLI::App& app, TableOptions& options) {
    app.add_option("LAYOUT", options.layout, "Layout, X.json")->required();
    app.add_option("--ranks", options.ranks, "Expert-parallel ranks, by default from the manifest")
        ->check(cli::whole_number_from(1, max_ranks));
    std::string models;
    for (const DispatchModel& model : dispatch_models()) {
        if (model.table != nullptr && model.targets != nullptr) {
            models += fmt::format("\n{}: {}", model.name, model.summary);
        }
    }
    CLI::Option* dispatch = app.add_option(
        "--dispatch", options.dispatch, "Rule that the table follows, or auto for that of --engine-version:" + models);
    app.add_option("--engine-version", options.engine_version,
                   "Release of SGLang, or the date of its newest commit, for --dispatch auto")
        ->needs(dispatch);
    CLI::Option* out =
        app.add_option("--out", options.out, "Table to write, X.npy or X.json; X.manifest.json goes beside it")
            ->needs(dispatch);
    dispatch->needs(out);
    CLI::Option* match =
        app.add_option("--match", options.match, "Table taken from a server: say which rule made it, write nothing")
            ->excludes(dispatch);
    app.add_option("--rank", options.rank, "The table of --match is the row of this global rank alone, [L, E]")
        ->check(cli::non_negative_number())
        ->needs(match);
    app.add_option("--nodes", options.nodes, "Hosts that the ranks are spread over")
        ->check(cli::whole_number_from(1, max_ranks));
    app.add_option("--tp", options.tensor_parallel, "Tensor-parallel size (vllm-ascend)")
        ->check(cli::whole_number_from(1, max_ranks))
        ->capture_default_str();
    app.add_option("--moe-tp", options.moe_tensor_parallel,
                   "Processes that share the experts of one EP rank (SGLang): a row for each process")
        ->check(cli::positive_number())
        ->capture_default_str();
    app.add_option("--pp", options.pipeline_stages, "Pipeline stages (SGLang): a row for each process")
        ->check(cli::positive_number())
        ->capture_default_str();
    app.add_option("--experts", options.experts, "Logical experts, by default from the manifest or the largest id")
        ->check(cli::whole_number_from(1, max_experts));
    app.add_flag("--force", options.force, "Replace existing outputs");
    cli::add_common_options(
        app, options.common,
        "  eplb-load table layout.json --ranks 32 --nodes 4 --dispatch sglang-c --out layout.table.npy\n"
        "  eplb-load table layout.json --ranks 16 --dispatch vllm-ascend --tp 4 --out layout.table.json\n"
        "  eplb-load table layout.json --ranks 16 --match rank3.npy --rank 3");
}

void add_checkpoint(CLI::App& app, CheckpointOptions& options, const std::string& examples) {
    app.add_option("LAYOUT", options.layout, "Layout, X.json with X.manifest.json beside it")->required();
    app.add_option("--checkpoint", options.checkpoint, "Folder with safetensors files, their index and config.json")
        ->required();
    app.add_option("--out", options.out, "Folder to write")->required();
    app.add_option("--ranks", options.ranks, "Expert-parallel ranks, by default from the manifest")
        ->check(cli::whole_number_from(1, max_ranks));
    std::string families;
    for (const ModelFamily& family : model_families()) families += fmt::format("\n{}: {}", family.name, family.summary);
    app.add_option(
        "--family", options.family,
        "How the tensors are named, by default from config.json:" + families + "\ngeneric: by the flags below");
    const auto group = "Names of the generic family";
    app.add_option("--expert-names", options.expert_names,
                   "Start of an expert's tensors, for example 'model.layers.{layer}.moe.experts.{expert}.'")
        ->group(group);
    app.add_option("--block-names", options.block_names,
                   "Start of a layer's other tensors of the router, for example 'model.layers.{layer}.moe.'")
        ->group(group);
    app.add_option("--stacked", options.stacked, "Under the block: tensors whose first axis is the expert")
        ->group(group);
    app.add_option("--router-rows", options.router_rows, "Under the block: router tensors with a row for each expert")
        ->group(group);
    app.add_option("--router-ids", options.router_ids, "Under the block: tables of expert ids (hash routing)")
        ->group(group);
    app.add_option("--dense-layers", options.dense_layers,
                   "Leading layers without experts, where config.json does not say")
        ->check(cli::non_negative_number());
    if (options.kind == CheckpointOptions::Kind::bake) {
        app.add_option("--groups", options.groups,
                       "Expert groups that routing is limited to, where config.json does not say")
            ->check(cli::positive_number());
        app.add_flag("--compose", options.compose, "Take a checkpoint that was baked already");
    }
    app.add_flag("--allow-no-manifest", options.allow_no_manifest, "Take a layout that has no manifest");
    app.add_flag("--force", options.force, "Replace a folder that eplb-load wrote and that holds no input");
    cli::add_common_options(app, options.common, examples);
}

}  // namespace

LoadOptions parse_options(int argc, char** argv) {
    CheckOptions check;
    TableOptions table;
    CheckpointOptions bake, slots;
    bake.kind = CheckpointOptions::Kind::bake;
    slots.kind = CheckpointOptions::Kind::slots;
    cli::CommonOptions common;
    CLI::App app("Admits a layout to a server, computes dispatch tables, and writes checkpoints in its order.",
                 "eplb-load");
    app.require_subcommand(1);
    cli::add_common_options(
        app, common,
        "  eplb-load check layout.json --engine sglang --server-args serve.sh --model-config MODEL\n"
        "  eplb-load bake layout.json --checkpoint MODEL --out MODEL-baked");
    CLI::App* check_app = app.add_subcommand("check", "May this layout be put in force on that server?");
    add_check(*check_app, check);
    CLI::App* table_app = app.add_subcommand(
        "table", "Compute the dispatch tables of all source ranks: which physical slot serves which expert");
    add_table(*table_app, table);
    CLI::App* bake_app = app.add_subcommand(
        "bake", "Permute a checkpoint so that a server without load balancing runs a redundancy-0 layout");
    add_checkpoint(*bake_app, bake,
                   "  eplb-load bake layout.json --checkpoint MODEL --out MODEL-baked\n"
                   "  eplb-load bake layout.json --checkpoint MODEL --out OUT --family generic --expert-names "
                   "'layers.{layer}.moe.{expert}.' --block-names 'layers.{layer}.' --router-rows gate.weight");
    CLI::App* slots_app =
        app.add_subcommand("slots", "Write one safetensors file a rank with its physical experts in slot order");
    add_checkpoint(*slots_app, slots,
                   "  eplb-load slots layout.json --checkpoint MODEL --out SLOTS\n"
                   "  eplb-load slots layout.json --checkpoint MODEL --out SLOTS --family deepseek --force");
    cli::parse(app, argc, argv);
    for (cli::CommonOptions* options : {&check.common, &table.common, &bake.common, &slots.common}) {
        *options = cli::merged(common, *options);
    }
    if (check_app->parsed()) return check;
    if (table_app->parsed()) {
        if (table.match) return table;
        if (table.dispatch.empty()) {
            throw Error(ErrorCode::usage, "--dispatch", "neither a rule nor a table to match is given",
                        "give --dispatch NAME --out FILE, or --match TABLE");
        }
        resolve_dispatch(std::span(&table.dispatch, 1), table.engine_version);
        return table;
    }
    return bake_app->parsed() ? bake : slots;
}

}  // namespace eplb
