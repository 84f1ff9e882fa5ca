// What a count window was recorded under: facts that no count file holds and that decide where a layout may be used.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eplb {

// Key and value in the fixed order of scenario_keys(). What nobody stated is "not-observed".
using Scenario = std::vector<std::pair<std::string, std::string>>;

struct ScenarioKey {
    std::string_view name;
    std::string_view summary;  // one line for docs
};
std::span<const ScenarioKey> scenario_keys();

// Every key, not observed.
Scenario unobserved_scenario();

// Reads --scenario FILE: a JSON object whose keys are scenario keys and whose values are texts or numbers; null means
// not observed. Throws Error{input} with the JSON path for unknown and duplicate keys, and for a role that is none of
// prefill, decode, mixed.
Scenario read_scenario(const std::string& path);
Scenario decode_scenario(std::string_view text);

}  // namespace eplb
