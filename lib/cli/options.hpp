// Flags that several programs share, each stated once. Includes CLI11, so only options.cpp files include this header.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cli/common_options.hpp"
#include "core/count_options.hpp"

namespace eplb::cli {

// What --version prints.
std::string version_line(const std::string& program);

// Adds --json, --threads, -v and --version; `examples` are two command lines shown at the end of --help.
void add_common_options(CLI::App& app, CommonOptions& options, const std::string& examples);

// Adds FILE... and the reading flags: --format --dataset --axes --layers --experts --dense-layers --drop-slots
// --take-slots --drop-layers --take-layers --top-k --expect-total --accept --reduction --recorded-ranks
// --recorded-layout --tokens-per-slot --pt-reader --cross-check. `files_name` is what the help calls the positional.
CLI::Option* add_count_options(CLI::App& app, CountOptions& options, const std::string& files_name);

// Adds a flag that takes one of a few names. CLI11's own transformer would also take the values behind the names.
template <typename Target, typename Value>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, Target& target,
                        const std::vector<std::pair<std::string, Value>>& choices, const std::string& help) {
    std::vector<std::string> names;
    for (const auto& choice : choices) names.push_back(choice.first);
    const auto choose = [&target, choices](const std::string& name) {
        for (const auto& choice : choices) {
            if (choice.first == name) target = choice.second;
        }
    };
    return app.add_option_function<std::string>(flag, choose, help)->check(CLI::IsMember(names));
}

// The check of a whole number that is at least `least`, at most `most`; says so in these words.
CLI::Validator whole_number_from(std::int64_t least, std::int64_t most = std::numeric_limits<int>::max());
inline CLI::Validator positive_number() {
    return whole_number_from(1);
}
inline CLI::Validator non_negative_number() {
    return whole_number_from(0);
}
// The same for a number that need not be whole.
CLI::Validator number_between(double least, double most);

// Parses, turning every complaint of CLI11 into Error{usage} and --help/--version into PrintAndExit. A flag that does
// not exist is named before what is missing, with the flag that was probably meant.
void parse(CLI::App& app, int argc, char** argv);

}  // namespace eplb::cli
