// What a check of a layout is given, and the functions behind the table of layout checks, one per file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/layout.hpp"

namespace eplb::check {

struct LayoutContext {
    const RawLayout& layout;
    const LayoutExpectation& expectation;
    const LayoutTarget& target;
    int experts = 0;                         // E: given, or as the map has it
    std::optional<int> width;                // physical slots of a row, where all rows agree
    std::optional<int> slots_per_rank = {};  // where the width divides by the ranks
};

struct LayoutCheck {
    std::vector<std::string_view> codes;  // every finding code that run() may give
    std::string_view summary;             // one line for docs
    std::vector<Finding> (*run)(const LayoutContext& context);
};

std::span<const LayoutCheck> layout_checks();

std::vector<Finding> check_layout_file(const LayoutContext& context);
std::vector<Finding> check_layout_shape(const LayoutContext& context);
std::vector<Finding> check_layout_budget(const LayoutContext& context);
std::vector<Finding> check_expert_ids(const LayoutContext& context);
std::vector<Finding> check_coverage(const LayoutContext& context);
std::vector<Finding> check_twice_on_rank(const LayoutContext& context);
std::vector<Finding> check_replicas(const LayoutContext& context);
std::vector<Finding> check_nodes(const LayoutContext& context);
std::vector<Finding> check_same_rows(const LayoutContext& context);
std::vector<Finding> check_manifest_geometry(const LayoutContext& context);

std::string slot_place(const LayoutContext& context, std::size_t layer, std::size_t slot);

}  // namespace eplb::check
