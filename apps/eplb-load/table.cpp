#include "run.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/app.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "dispatch/model.hpp"
#include "files/digest.hpp"
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
    require_context(model, context);
    return context;
}

}  // namespace

int run_table(const TableOptions& options) {
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
    const auto file = MappedFile::open(options.layout);
    const std::string layout_sha256 = sha256_hex(file->bytes());
    const auto fitted = find_manifest(options.layout, layout_sha256);
    if (!options.ranks && !fitted) {
        throw Error(ErrorCode::usage, "--ranks",
                    "the number of ranks is not known: no manifest beside the layout tells", "give --ranks R");
    }
    std::optional<int> experts = options.experts;
    if (!experts && fitted) experts = fitted->geometry.experts;
    const LayoutFile layout =
        read_layout(options.layout, options.ranks ? *options.ranks : fitted->geometry.ranks, experts);
    if (fitted && fitted->geometry != layout.layout.geometry()) {
        throw Error(
            ErrorCode::input, manifest_path(options.layout),
            fmt::format("it states {}, asked is {}", describe(fitted->geometry), describe(layout.layout.geometry())),
            "check --ranks and --experts");
    }
    const Geometry& geometry = layout.layout.geometry();
    const DispatchTable table = dispatch_table(model, layout.layout, context);
    DispatchContext given = context;
    given.table = &table;
    const double worst =
        replica_share_max_over_mean(layout.layout, replica_shares(find_dispatch_model("table"), layout.layout, given));

    const std::vector<std::byte> bytes = encode_dispatch_table(table, options.out);
    DispatchTableManifest manifest;
    manifest.layout_sha256 = layout.sha256;
    manifest.table_sha256 = sha256_hex(bytes);
    manifest.ranks = geometry.ranks;
    manifest.layers = geometry.layers;
    manifest.experts = geometry.experts;
    manifest.dispatch = model.name;
    if (model.needs_nodes) manifest.nodes = options.nodes;
    manifest.tensor_parallel = options.tensor_parallel;
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
        object["nodes"] = manifest.nodes ? nlohmann::ordered_json(*manifest.nodes) : nlohmann::ordered_json(nullptr);
        object["tensor_parallel"] = manifest.tensor_parallel;
        object["replica_share_max_over_mean"] = worst;
        cli::print(object.dump(2) + "\n");
        return 0;
    }
    cli::print(fmt::format(
        "{}: {}\n{}: dispatch tables of {}{}, {} ranks x {} layers x {} experts\n"
        "The busiest replica gets {:.2f} times the even share of its expert.\n",
        options.layout, describe(geometry), options.out, model.name,
        manifest.nodes ? fmt::format(" on {} node{}", *manifest.nodes, *manifest.nodes == 1 ? "" : "s") : "",
        table.ranks, table.layers, table.experts, worst));
    return 0;
}

}  // namespace eplb
