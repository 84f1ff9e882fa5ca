// What a model's config.json says about its experts.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace eplb {

// Every figure is absent where the file does not say it. A multimodal model's `text_config` counts when the top level
// has no layers.
struct ModelConfig {
    std::string model_type;             // "deepseek_v3"
    std::optional<int> hidden_layers;   // decoder layers, draft layers not counted
    std::optional<int> experts;         // routed experts a layer
    std::optional<int> dense_layers;    // leading layers without experts
    std::vector<int> dense_layer_list;  // further layers without experts, by name in the file
    std::optional<int> top_k;           // experts a token is routed to
    std::optional<int> groups;          // expert groups that routing is limited to; 1: no limit
    std::optional<int> shared_experts;  // always computed, outside the layout
    std::optional<int> draft_layers;    // NextN / MTP layers after the decoder
    std::vector<std::string> unknown;   // keys that nothing here reads, in file order

    // Decoder layers that have experts, ascending; empty when the file does not say how many layers there are.
    std::vector<int> expert_layers() const;
};

// A foreign file: unknown keys are listed, not refused. Throws Error{input} when it is no JSON object or a figure that
// is read is no whole number.
ModelConfig parse_model_config(const std::string& name, const std::string& text);

// `path` is the file or the folder that holds config.json.
ModelConfig read_model_config(const std::string& path);

}  // namespace eplb
