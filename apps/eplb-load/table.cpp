#include "run.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/app.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "dispatch/model.hpp"
#include "dispatch/table_match.hpp"
#include "files/digest.hpp"
#include "files/json_text.hpp"
#include "files/mapped_file.hpp"
#include "files/output.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"

namespace eplb {
namespace {

DispatchContext context_of(const TableOptions& options, const DispatchModel& model) {
    if (options.tensor_parallel > 1 && !model.uses_tensor_parallel) {
        throw Error(ErrorCode::usage, "--tp", fmt::format("{} does not depend on tensor parallelism", model.name),
                    "drop it");
    }
    DispatchContext context;
    context.nodes = options.nodes;
    context.tensor_parallel = options.tensor_parallel;
    context.moe_tensor_parallel = options.moe_tensor_parallel;
    context.pipeline_stages = options.pipeline_stages;
    require_context(model, context);
    return context;
}

// The layout for the ranks and experts of the flags, or of its manifest. Throws Error when neither says them, or the
// two contradict each other.
LayoutFile layout_of(const TableOptions& options) {
    const auto file = MappedFile::open(options.layout);
    const auto fitted = find_manifest(options.layout, sha256_hex(file->bytes()));
    if (!options.ranks && !fitted) {
        throw Error(ErrorCode::usage, "--ranks",
                    "the number of ranks is not known: no manifest beside the layout tells", "give --ranks R");
    }
    std::optional<int> experts = options.experts;
    if (!experts && fitted) experts = fitted->geometry.experts;
    LayoutFile layout = read_layout(*file, options.ranks ? *options.ranks : fitted->geometry.ranks, experts);
    if (fitted && fitted->geometry != layout.layout.geometry()) {
        throw Error(
            ErrorCode::input, manifest_path(options.layout),
            fmt::format("it states {}, asked is {}", describe(fitted->geometry), describe(layout.layout.geometry())),
            "check --ranks and --experts");
    }
    return layout;
}

std::string nodes_text(const std::optional<int>& nodes) {
    return nodes ? fmt::format(" on {} node{}", *nodes, *nodes == 1 ? "" : "s") : "";
}

nlohmann::ordered_json nodes_json(const std::optional<int>& nodes) {
    return nodes ? nlohmann::ordered_json(*nodes) : nlohmann::ordered_json(nullptr);
}

}  // namespace

int run_match(const TableOptions& options) {
    const LayoutFile layout = layout_of(options);
    const DispatchFile file = read_dispatch_table(*options.match, options.rank ? TableRows::one : TableRows::all);
    DispatchContext given;
    given.nodes = options.nodes;
    given.tensor_parallel = options.tensor_parallel;
    given.moe_tensor_parallel = options.moe_tensor_parallel;
    given.pipeline_stages = options.pipeline_stages;
    std::vector<TableMatch> matches;
    try {
        matches = match_table(layout.layout, file.table, given, options.rank);
    } catch (const Error& error) {
        throw error.code() == ErrorCode::input ? error.inside(*options.match) : error;
    }
    const bool found = !matches.empty() && matches.front().different == 0;
    if (options.common.json) {
        nlohmann::ordered_json object;
        object["tool"] = "eplb-load";
        object["version"] = version();
        object["command"] = "table";
        object["layout"] = {{"file", options.layout}, {"sha256", layout.sha256}};
        object["match"] = {{"file", *options.match}, {"sha256", file.sha256}, {"entries", file.table.slots.size()}};
        object["rules"] = nlohmann::ordered_json::array();
        for (const TableMatch& match : matches) {
            nlohmann::ordered_json& rule = object["rules"].emplace_back();
            rule["dispatch"] = match.model;
            rule["nodes"] = nodes_json(match.nodes);
            rule["tensor_parallel"] = match.tensor_parallel;
            rule["different"] = match.different;
            rule["first"] = nullptr;
            if (match.different == 0) continue;
            rule["first"] = {{"rank", match.process},
                             {"layer", match.layer},
                             {"expert", match.expert},
                             {"by_rule", match.by_rule.value},
                             {"in_table", match.in_table.value}};
        }
        cli::print(object.dump(2) + "\n");
        return found ? 0 : 1;
    }
    std::string text = fmt::format("{}: {}\n", *options.match,
                                   found ? "equals the table of" : "equals the table of no rule known here");
    for (const TableMatch& match : matches) {
        const std::string rule =
            fmt::format("{}{}{}", match.model, nodes_text(match.nodes),
                        match.tensor_parallel > 1 ? fmt::format(" with --tp {}", match.tensor_parallel) : "");
        if (match.different == 0) {
            text += fmt::format("  {}\n", rule);
            continue;
        }
        text +=
            fmt::format("  not {}: {} of {} entries differ, first rank {}, layer {}, expert {}: {}, the table has {}\n",
                        rule, match.different, file.table.slots.size(), match.process, match.layer, match.expert,
                        match.by_rule.value, match.in_table.value);
    }
    cli::print(text);
    return found ? 0 : 1;
}

int run_table(const TableOptions& options) {
    if (options.match) return run_match(options);
    const DispatchModel& model = find_dispatch_model(options.dispatch);
    if (model.targets == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch", fmt::format("{} is no rule to compute a table by", model.name));
    }
    const DispatchContext context = context_of(options, model);
    const std::string manifest_out = dispatch_table_manifest_path(options.out);
    for (const std::string& output : {options.out, manifest_out}) {
        for (const std::string& input : {options.layout, manifest_path(options.layout)}) {
            std::error_code ignored;
            if (output == input || std::filesystem::equivalent(output, input, ignored)) {
                throw Error(ErrorCode::usage, "--out", fmt::format("{} belongs to the layout", output),
                            "give the table another name, for example X.table.npy");
            }
        }
    }
    const LayoutFile layout = layout_of(options);
    const Geometry& geometry = layout.layout.geometry();
    const DispatchTable table = dispatch_table(model, layout.layout, context);
    const double worst =
        replica_share_max_over_mean(layout.layout, replica_shares(model, layout.layout, context, &table));

    const std::vector<std::byte> bytes = encode_dispatch_table(table, options.out);
    DispatchTableManifest manifest;
    manifest.layout_sha256 = layout.sha256;
    manifest.table_sha256 = sha256_hex(bytes);
    manifest.ranks = table.ranks;
    manifest.layers = geometry.layers;
    manifest.experts = geometry.experts;
    manifest.dispatch = model.name;
    if (model.needs_nodes) manifest.nodes = options.nodes;
    manifest.tensor_parallel = options.tensor_parallel;
    manifest.moe_tensor_parallel = options.moe_tensor_parallel;
    manifest.pipeline_stages = options.pipeline_stages;
    manifest.tool_version = version();
    manifest.tool_commit = commit();
    OutputSet outputs(options.force);
    outputs.add(manifest_out, encode_dispatch_table_manifest(manifest));
    outputs.add(options.out, bytes);
    outputs.commit();

    if (options.common.json) {
        nlohmann::ordered_json object;
        object["tool"] = "eplb-load";
        object["version"] = version();
        object["command"] = "table";
        object["layout"] = {{"file", options.layout}, {"sha256", layout.sha256}};
        object["table"] = {{"file", options.out},
                           {"sha256", manifest.table_sha256},
                           {"shape", {table.ranks, table.layers, table.experts}}};
        object["dispatch"] = model.name;
        object["nodes"] = nodes_json(manifest.nodes);
        object["tensor_parallel"] = manifest.tensor_parallel;
        object["replica_share_max_over_mean"] = worst;
        cli::print(json_text(object, 2));
        return 0;
    }
    cli::print(fmt::format(
        "{}: {}\n{}: dispatch tables of {}{}, {} {} x {} layers x {} experts\n"
        "The busiest replica gets {:.2f} times the even share of its expert.\n",
        printable(options.layout), describe(geometry), printable(options.out), model.name, nodes_text(manifest.nodes),
        table.ranks, table.ranks == geometry.ranks ? "ranks" : "processes", table.layers, table.experts, worst));
    return 0;
}

}  // namespace eplb
