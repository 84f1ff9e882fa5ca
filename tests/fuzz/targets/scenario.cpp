#include "layout_io/scenario.hpp"

#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const Scenario scenario = decode_scenario(text);
    require(scenario.size() == scenario_keys().size());
}
