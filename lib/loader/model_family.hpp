// How the checkpoints of a model family name what depends on the number of an expert.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eplb {

// Patterns hold {layer} and {expert} where a number stands. Everything under `expert` moves with the expert, whatever
// it is called: weights, scales, offsets, biases.
struct ModelFamily {
    std::string name, summary;
    std::vector<std::string> model_types;  // of config.json
    std::string block;                     // prefix of a layer's MoE tensors: "model.layers.{layer}.mlp."
    std::string expert;                // prefix of one expert's tensors: "model.layers.{layer}.mlp.experts.{expert}."
    std::vector<std::string> stacked;  // under the block: first axis is the expert, moved like an expert's tensors
    std::vector<std::string> router_rows;  // under the block: first axis is the expert, part of the router
    std::vector<std::string> router_ids;   // under the block: values are expert ids (hash routing)
    std::vector<std::string> stays;        // prefixes under the block of what has no expert axis: shared experts
};

// deepseek, deepseek-v4, qwen3-moe.
std::span<const ModelFamily> model_families();

// Throws Error{usage} that lists the names.
const ModelFamily& find_model_family(std::string_view name);

// The family that claims a config.json's model_type; null when none does.
const ModelFamily* family_of_model_type(std::string_view model_type);

// What a tensor's name says under a family.
struct TensorRole {
    enum class Kind { other, expert, stacked, router_rows, router_ids, undeclared };
    Kind kind = Kind::other;  // undeclared: inside the block, and nothing the family knows
    int layer = -1, expert = -1;
    std::string suffix;  // after the expert's or the block's prefix
};

TensorRole role_of(const ModelFamily& family, std::string_view tensor_name);

// The name of an expert's tensor: the inverse of role_of for experts.
std::string expert_tensor_name(const ModelFamily& family, int layer, int expert, std::string_view suffix);

// The same without the expert's number, for tensors whose first axis is a slot: "model.layers.3.mlp.experts.w1.weight".
std::string stacked_tensor_name(const ModelFamily& family, int layer, std::string_view suffix);

// What stands before the suffix in that name, with {layer} left in: "model.layers.{layer}.mlp.experts.".
std::string stacked_prefix(const ModelFamily& family);

}  // namespace eplb
