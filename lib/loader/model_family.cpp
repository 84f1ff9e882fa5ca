#include "loader/model_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"

namespace eplb {
namespace {

const std::vector<ModelFamily>& table() {
    static const std::vector<ModelFamily> families{
        {"deepseek",
         "DeepSeek V2, V3, V3.x, Kimi K2, GLM-4.5 and others with their names",
         {"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe"},
         "model.layers.{layer}.mlp.",
         "model.layers.{layer}.mlp.experts.{expert}.",
         {},
         {"gate.weight", "gate.e_score_correction_bias"},
         {},
         {"shared_experts."}},
        {"deepseek-v4",
         "DeepSeek V4 under its own names, with hash-routed layers",
         {"deepseek_v4"},
         "layers.{layer}.ffn.",
         "layers.{layer}.ffn.experts.{expert}.",
         {},
         {"gate.weight", "gate.bias"},
         {"gate.tid2eid"},
         {"shared_experts."}},
        {"qwen3-moe",
         "Qwen3-MoE, Qwen2-MoE and others with their names",
         {"qwen3_moe", "qwen2_moe"},
         "model.layers.{layer}.mlp.",
         "model.layers.{layer}.mlp.experts.{expert}.",
         {"experts.gate_up_proj", "experts.down_proj"},
         {"gate.weight"},
         {},
         {"shared_expert.", "shared_expert_gate."}},
    };
    return families;
}

// Matches `pattern` against the start of `text` and takes what follows; numbers are decimal without leading zeros.
bool take_prefix(std::string_view pattern, std::string_view& text, int& layer, int& expert) {
    while (!pattern.empty()) {
        if (pattern.front() != '{') {
            if (text.empty() || text.front() != pattern.front()) return false;
            pattern.remove_prefix(1);
            text.remove_prefix(1);
            continue;
        }
        const std::size_t close = pattern.find('}');
        int& number = pattern.substr(0, close) == "{layer" ? layer : expert;
        int value = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        const auto digits = static_cast<std::size_t>(end - text.data());
        if (failed != std::errc() || value < 0 || text.front() == '-' || (digits > 1 && text.front() == '0'))
            return false;
        number = value;
        pattern.remove_prefix(close + 1);
        text.remove_prefix(digits);
    }
    return true;
}

std::string fill(std::string pattern, std::string_view hole, const std::string& value) {
    const std::size_t at = pattern.find(hole);
    if (at != std::string::npos) pattern.replace(at, hole.size(), value);
    return pattern;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::span<const ModelFamily> model_families() {
    return table();
}

const ModelFamily& find_model_family(std::string_view name) {
    std::string names;
    for (const ModelFamily& family : table()) {
        if (family.name == name) return family;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", family.name);
    }
    throw Error(ErrorCode::usage, "--family", fmt::format("'{}' is not a model family", name),
                fmt::format("one of {}, or generic with --expert-names", names));
}

const ModelFamily* family_of_model_type(std::string_view model_type) {
    for (const ModelFamily& family : table()) {
        if (contains(family.model_types, model_type)) return &family;
    }
    return nullptr;
}

TensorRole role_of(const ModelFamily& family, std::string_view tensor_name) {
    using Kind = TensorRole::Kind;
    TensorRole role;
    std::string_view rest = tensor_name;
    if (take_prefix(family.expert, rest, role.layer, role.expert)) {
        role.kind = Kind::expert;
        role.suffix = rest;
        return role;
    }
    role = {};
    rest = tensor_name;
    if (!take_prefix(family.block, rest, role.layer, role.expert)) return {};
    for (const std::string& prefix : family.stays) {
        if (rest.starts_with(prefix)) return {};
    }
    role.suffix = rest;
    role.kind = contains(family.stacked, rest)       ? Kind::stacked
                : contains(family.router_rows, rest) ? Kind::router_rows
                : contains(family.router_ids, rest)  ? Kind::router_ids
                                                     : Kind::undeclared;
    return role;
}

std::string expert_tensor_name(const ModelFamily& family, int layer, int expert, std::string_view suffix) {
    return fill(fill(family.expert, "{layer}", fmt::to_string(layer)), "{expert}", fmt::to_string(expert)) +
           std::string(suffix);
}

std::string stacked_tensor_name(const ModelFamily& family, int layer, std::string_view suffix) {
    return fill(stacked_prefix(family), "{layer}", fmt::to_string(layer)) + std::string(suffix);
}

std::string stacked_prefix(const ModelFamily& family) {
    return fill(family.expert, "{expert}.", "");
}

}  // namespace eplb
