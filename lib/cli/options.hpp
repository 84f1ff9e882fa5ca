// Flags that several programs share, each stated once. Includes CLI11, so only options.cpp files include this header.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "cli/common_options.hpp"
#include "core/count_options.hpp"

namespace eplb::cli {

// Adds --json, --threads, -v and --version; `examples` are two command lines shown at the end of --help.
void add_common_options(CLI::App& app, CommonOptions& options, const std::string& examples);

// Adds FILE... and the reading flags --format --dataset --layers --experts --dense-layers --top-k --expect-total
// --reduction
// --pt-reader --cross-check. `files_name` is what the help calls the positional.
CLI::Option* add_count_options(CLI::App& app, CountOptions& options, const std::string& files_name);

// Parses, turning every complaint of CLI11 into Error{usage} and --help/--version into PrintAndExit.
void parse(CLI::App& app, int argc, char** argv);

}  // namespace eplb::cli
