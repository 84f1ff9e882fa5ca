// The flags of eplb-load, as values: one subcommand is chosen.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/common_options.hpp"

namespace eplb {

struct CheckOptions {
    cli::CommonOptions common;
    std::string layout;
    std::optional<std::string> table, current, model_config, server_args, attest, expect;
    std::vector<std::pair<std::string, std::string>> facts;  // name and value, from flags
    std::string engine = "generic";
    bool allow_no_manifest = false, force = false;
};

// bake and slots.
struct CheckpointOptions {
    enum class Kind { bake, slots };
    Kind kind = Kind::bake;
    cli::CommonOptions common;
    std::string layout, checkpoint, out;
    std::optional<int> ranks;
    std::optional<std::string> family;  // else by config.json
    // The generic family: names with {layer} and {expert}.
    std::optional<std::string> expert_names, block_names;
    std::vector<std::string> stacked, router_rows, router_ids;
    std::optional<int> groups, dense_layers;  // where config.json does not say
    bool allow_no_manifest = false, force = false, compose = false;
};

struct TableOptions {
    cli::CommonOptions common;
    std::string layout, dispatch, out;
    std::optional<std::string> engine_version;
    std::optional<std::string> match;  // a table whose rule is asked for, in place of dispatch and out
    std::optional<int> ranks, experts, nodes, rank;
    int tensor_parallel = 1, moe_tensor_parallel = 1, pipeline_stages = 1;
    bool force = false;
};

using LoadOptions = std::variant<CheckOptions, TableOptions, CheckpointOptions>;

// Opens no file.
LoadOptions parse_options(int argc, char** argv);

}  // namespace eplb
