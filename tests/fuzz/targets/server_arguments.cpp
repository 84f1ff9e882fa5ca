#include "loader/server_facts.hpp"
#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    for (const EngineProfile& profile : engine_profiles()) {
        ServerFacts facts;
        read_server_arguments("arguments", std::string(text), profile, facts);
        for (const auto& [name, fact] : facts.all()) require(facts.text(name) == fact.value);
    }
}
