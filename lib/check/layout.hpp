// Is a layout legal, and is it the one for this deployment?
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/finding.hpp"
#include "core/layout.hpp"
#include "core/raw_layout.hpp"

namespace eplb {

// The engine that will read the layout, as far as its demands on the map differ.
struct LayoutTarget {
    std::string_view name;     // --target NAME
    std::string_view summary;  // one line for help and docs
    bool only_the_map_key;     // any other key in the file stops the server
    bool json_file_name;       // the file is recognised by its name
    bool needs_nodes;          // its dispatch depends on the number of hosts
    int most_replicas;         // replicas of one expert that its tables can hold
};

std::span<const LayoutTarget> layout_targets();

// Throws Error{usage} that lists the names.
const LayoutTarget& find_layout_target(std::string_view name);

// What the deployment is; what is not given is not checked, or follows from the map.
struct LayoutExpectation {
    int ranks = 1;
    std::optional<int> experts;            // else the largest id + 1
    std::optional<int> layers;             // hidden layers
    std::optional<int> nodes;              // hosts the ranks are spread over
    std::optional<int> redundant_total;    // the engine's flag, for example --ep-num-redundant-experts
    std::optional<Geometry> recorded;      // what the manifest beside the file says
    const LayoutTarget* target = nullptr;  // null: generic
};

struct LayoutReport {
    std::optional<Geometry> geometry;  // where the map is rectangular and divides by the ranks
    std::vector<Finding> findings;     // most severe first
};

// Runs every check of the table on a file of any content.
LayoutReport check_layout(const RawLayout& layout, const LayoutExpectation& expectation);

// Legality of a layout in memory: every expert in every row, none twice on a rank, not more slots a rank than experts.
// Empty when it is legal.
std::vector<Finding> check_layout(const Layout& layout);

// Every code that check_layout may give.
std::vector<std::string_view> layout_codes();

}  // namespace eplb
