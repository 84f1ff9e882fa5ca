#include "layout_io/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"

namespace eplb {
namespace {

constexpr std::array keys{
    ScenarioKey{"engine", "serving engine, for example sglang"},
    ScenarioKey{"engine_version", "its version or commit"},
    ScenarioKey{"hardware", "accelerator, for example Ascend 910C"},
    ScenarioKey{"model", "model and revision"},
    ScenarioKey{"part", "target, or draft for a speculative decoding model"},
    ScenarioKey{"quantisation", "for example w8a8"},
    ScenarioKey{"role", "prefill, decode or mixed"},
    ScenarioKey{"input_length", "tokens a request, as a number or a description"},
    ScenarioKey{"output_length", "tokens a request"},
    ScenarioKey{"cache_hit", "share of the input served from the prefix cache"},
    ScenarioKey{"chunk", "tokens of a prefill chunk"},
    ScenarioKey{"tensor_parallel", "ranks of the attention's tensor parallelism"},
    ScenarioKey{"data_parallel", "ranks of data parallelism"},
    ScenarioKey{"expert_parallel", "ranks of expert parallelism while recording"},
    ScenarioKey{"pipeline_parallel", "pipeline stages"},
    ScenarioKey{"nodes", "hosts while recording"},
    ScenarioKey{"dispatch", "rule that picked the replica while recording"},
    ScenarioKey{"a2a_backend", "all-to-all backend, for example deepep"},
    ScenarioKey{"workload", "data set or traffic that was sent"},
};
constexpr std::string_view not_observed = "not-observed";

std::string text_of(JsonValue value) {
    switch (value.kind()) {
        case JsonKind::null:
            return std::string(not_observed);
        case JsonKind::string:
            return std::string(value.as_string());
        case JsonKind::integer:
            return fmt::format("{}", value.as_integer());
        case JsonKind::real:
            return fmt::format("{}", value.as_number());
        default:
            value.fail("MALFORMED", "is neither a text nor a number");
    }
}

}  // namespace

std::span<const ScenarioKey> scenario_keys() {
    return keys;
}

Scenario unobserved_scenario() {
    Scenario scenario;
    for (const ScenarioKey& key : keys) scenario.emplace_back(key.name, not_observed);
    return scenario;
}

Scenario decode_scenario(std::string_view text) {
    const JsonDocument document = JsonDocument::parse(text);
    std::vector<std::string_view> names;
    for (const ScenarioKey& key : keys) names.push_back(key.name);
    document.root().allow_keys(names);
    Scenario scenario = unobserved_scenario();
    for (auto& [key, text_value] : scenario) {
        const auto value = document.root().find(key);
        if (!value) continue;
        text_value = text_of(*value);
        if (key != "role" || text_value == not_observed) continue;
        constexpr std::array<std::string_view, 3> roles{"prefill", "decode", "mixed"};
        if (std::find(roles.begin(), roles.end(), text_value) == roles.end()) {
            value->fail("MALFORMED", fmt::format("'{}' is not prefill, decode or mixed", text_value),
                        "hot experts differ between the roles");
        }
    }
    return scenario;
}

Scenario read_scenario(const std::string& path) {
    const auto file = MappedFile::open(path);
    try {
        return decode_scenario(file->text());
    } catch (...) {
        rethrow_inside(path);
    }
}

}  // namespace eplb
