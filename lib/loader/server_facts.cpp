#include "loader/server_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr std::array names{
    FactName{"ranks", FactKind::number, "expert-parallel ranks"},
    FactName{"world-size", FactKind::number, "processes of the model: tensor times pipeline parallel"},
    FactName{"tensor-parallel", FactKind::number, "ranks of tensor parallelism"},
    FactName{"data-parallel", FactKind::number, "ranks of data parallelism"},
    FactName{"pipeline-parallel", FactKind::number, "pipeline stages"},
    FactName{"nodes", FactKind::number, "hosts that the ranks are spread over"},
    FactName{"layers", FactKind::number, "decoder layers of the model"},
    FactName{"expert-layers", FactKind::number, "decoder layers that have experts"},
    FactName{"experts", FactKind::number, "logical experts a layer"},
    FactName{"redundant-total", FactKind::number, "redundant slots of all ranks together"},
    FactName{"redundant-per-rank", FactKind::number, "redundant slots of each rank"},
    FactName{"shared-experts", FactKind::number, "shared experts of the model"},
    FactName{"model-draft-layers", FactKind::number, "draft (NextN, MTP) layers of the model"},
    FactName{"role", FactKind::text, "prefill, decode or mixed"},
    FactName{"quant", FactKind::text, "quantisation of the experts"},
    FactName{"a2a", FactKind::text, "all-to-all backend"},
    FactName{"dispatch", FactKind::text, "dispatch model"},
    FactName{"dispatch-algorithm", FactKind::text, "the engine's own switch for dispatch"},
    FactName{"enable-eplb", FactKind::toggle, "the engine's switch for load balancing"},
    FactName{"dynamic-eplb", FactKind::toggle, "the engine replaces the layout while it serves"},
    FactName{"shared-fusion", FactKind::toggle, "shared experts are fused into the routed ones"},
    FactName{"draft-layers", FactKind::text, "what happens to draft layers: refuse or trivial"},
    FactName{"speculative", FactKind::text, "speculative decoding algorithm"},
    FactName{"layout-path", FactKind::text, "layout the engine was told to load"},
};

std::optional<int> as_number(std::string_view text) {
    int value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

std::span<const FactName> fact_names() {
    return names;
}

const FactName& find_fact_name(std::string_view name) {
    const auto known =
        std::find_if(names.begin(), names.end(), [&](const FactName& fact) { return fact.name == name; });
    if (known == names.end()) throw Error(ErrorCode::usage, "", fmt::format("'{}' is no fact of a server", name));
    return *known;
}

void ServerFacts::add(std::string_view name, std::string value, std::string source) {
    constexpr std::size_t longest_value = 4096;  // PATH_MAX
    constexpr int most_contradictions = 4;       // of one fact: enough to find out
    if (value.size() > longest_value) {
        throw Error(ErrorCode::input, source, fmt::format("{} has {} bytes, which is absurd", name, value.size()));
    }
    const FactKind kind = find_fact_name(name).kind;
    if (kind == FactKind::number && as_number(value).value_or(-1) < 0) {
        throw Error(ErrorCode::input, source, fmt::format("{} is '{}', which is no number", name, value));
    }
    if (kind == FactKind::toggle) {
        for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (value != "true" && value != "false") {
            throw Error(ErrorCode::input, source, fmt::format("{} is '{}', neither true nor false", name, value));
        }
    }
    const auto [fact, fresh] = facts_.emplace(std::string(name), Fact{value, source, 0});
    if (!fresh && fact->second.value != value && fact->second.contradictions++ < most_contradictions) {
        contradictions_.push_back(
            fmt::format("{}: {} says {}, {} says {}", name, fact->second.source, fact->second.value, source, value));
    }
}

void ServerFacts::add(const ModelConfig& config, const std::string& source) {
    const auto add_number = [&](std::string_view name, const std::optional<int>& value) {
        if (value) add(name, fmt::to_string(*value), source);
    };
    add_number("layers", config.hidden_layers);
    add_number("experts", config.experts);
    add_number("shared-experts", config.shared_experts);
    add_number("model-draft-layers", config.draft_layers);
    if (config.hidden_layers) add("expert-layers", fmt::to_string(config.expert_layers().size()), source);
    if (!config.unknown.empty()) note(fmt::format("{}: {} keys not read", source, config.unknown.size()));
}

std::optional<std::string> ServerFacts::text(std::string_view name) const {
    const auto fact = facts_.find(name);
    if (fact == facts_.end()) return std::nullopt;
    return fact->second.value;
}

std::optional<int> ServerFacts::number(std::string_view name) const {
    const auto fact = facts_.find(name);
    return fact == facts_.end() ? std::nullopt : as_number(fact->second.value);
}

std::optional<bool> ServerFacts::flag(std::string_view name) const {
    const auto fact = facts_.find(name);
    if (fact == facts_.end()) return std::nullopt;
    return fact->second.value == "true";
}

const std::string& ServerFacts::source(std::string_view name) const {
    return facts_.find(name)->second.source;
}

}  // namespace eplb
