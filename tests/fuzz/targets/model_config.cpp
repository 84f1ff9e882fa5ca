#include "loader/model_config.hpp"

#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const ModelConfig config = parse_model_config("config.json", std::string(text));
    require(config.expert_layers().size() <= static_cast<std::size_t>(config.hidden_layers.value_or(0)));
}
