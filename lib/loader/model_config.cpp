#include "loader/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"

namespace eplb {
namespace {

// One figure and the names that model families give it; the first one present counts.
struct ConfigKey {
    std::optional<int> ModelConfig::*figure;
    std::array<std::string_view, 3> names;
};

constexpr std::array config_keys{
    ConfigKey{&ModelConfig::hidden_layers, {"num_hidden_layers", "n_layers"}},
    ConfigKey{&ModelConfig::experts, {"n_routed_experts", "num_experts", "num_local_experts"}},
    ConfigKey{&ModelConfig::dense_layers, {"first_k_dense_replace", "n_dense_layers"}},
    ConfigKey{&ModelConfig::top_k, {"num_experts_per_tok", "n_activated_experts", "moe_top_k"}},
    ConfigKey{&ModelConfig::groups, {"n_group", "n_expert_groups"}},
    ConfigKey{&ModelConfig::shared_experts, {"n_shared_experts", "num_shared_experts"}},
    ConfigKey{&ModelConfig::draft_layers, {"num_nextn_predict_layers", "num_mtp_layers"}},
};

bool read_figure(ModelConfig& config, std::string_view key, const JsonValue& value,
                 std::array<bool, config_keys.size()>& seen) {
    for (std::size_t index = 0; index < config_keys.size(); ++index) {
        const ConfigKey& entry = config_keys[index];
        const auto name = std::find(entry.names.begin(), entry.names.end(), key);
        if (name == entry.names.end()) continue;
        if (value.is(JsonKind::null)) return true;  // a family that inherits the key and does not use it
        const int figure = static_cast<int>(value.as_integer(0, max_experts));
        if (seen[index] && config.*entry.figure != figure) {
            value.fail("", fmt::format("{} contradicts {} under another name of the same figure", figure,
                                       *(config.*entry.figure)));
        }
        config.*entry.figure = figure;
        seen[index] = true;
        return true;
    }
    return false;
}

ModelConfig read_object(const JsonValue& object) {
    ModelConfig config;
    std::array<bool, config_keys.size()> seen{};
    std::optional<JsonValue> text_config;
    int sparse_step = 1;
    for (const auto [key, value] : object.members()) {
        if (read_figure(config, key, value, seen)) continue;
        if (key == "model_type" && value.is(JsonKind::string)) {
            config.model_type = value.as_string();
        } else if (key == "text_config" && value.is(JsonKind::object)) {
            text_config = value;
        } else if (key == "mlp_only_layers" && value.is(JsonKind::array)) {
            for (const JsonValue layer : value.elements()) {
                config.dense_layer_list.push_back(static_cast<int>(layer.as_integer(0, max_layers)));
            }
        } else if (key == "decoder_sparse_step") {
            sparse_step = static_cast<int>(value.as_integer(1, max_layers));
        } else {
            config.unknown.emplace_back(key);
        }
    }
    if (!config.hidden_layers && text_config) return read_object(*text_config);
    for (int layer = 0; sparse_step > 1 && layer < config.hidden_layers.value_or(0); ++layer) {
        if ((layer + 1) % sparse_step != 0) config.dense_layer_list.push_back(layer);
    }
    std::sort(config.dense_layer_list.begin(), config.dense_layer_list.end());
    const auto repeats = std::unique(config.dense_layer_list.begin(), config.dense_layer_list.end());
    config.dense_layer_list.erase(repeats, config.dense_layer_list.end());
    return config;
}

}  // namespace

std::vector<int> ModelConfig::expert_layers() const {
    std::vector<int> layers;
    for (int layer = dense_layers.value_or(0); layer < hidden_layers.value_or(0); ++layer) {
        if (!std::binary_search(dense_layer_list.begin(), dense_layer_list.end(), layer)) layers.push_back(layer);
    }
    return layers;
}

ModelConfig parse_model_config(const std::string& name, const std::string& text) {
    try {
        const JsonDocument document = JsonDocument::parse(text);
        return read_object(document.root());
    } catch (...) {
        rethrow_inside(name);
    }
}

ModelConfig read_model_config(const std::string& path) {
    const std::string file = std::filesystem::is_directory(path) ? path + "/config.json" : path;
    return parse_model_config(file, std::string(MappedFile::open(file)->text()));
}

}  // namespace eplb
