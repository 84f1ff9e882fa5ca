#include "check/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "check/counts.hpp"
#include "check/layout/checks.hpp"
#include "core/error.hpp"

namespace eplb {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;
using check::LayoutCheck;
using check::LayoutContext;

// Limits: SGLang's table grows with the map; vLLM and TensorRT-LLM hold 1024 replicas.
constexpr std::array targets{
    LayoutTarget{"sglang", "SGLang --init-expert-location", true, true, true, max_ranks},
    LayoutTarget{"generic", "any engine that takes physical_to_logical_map", false, false, false, 1024},
};

const std::vector<LayoutCheck>& layout_table() {
    static const std::vector<LayoutCheck> checks{
        {{"EXTRA_KEY", "NOT_AN_INTEGER", "NAME_NOT_JSON"},
         "one key, whole numbers, a name that the engine recognises",
         check::check_layout_file},
        {{"NOT_RECTANGULAR", "LAYOUT_TOO_LARGE", "LAYERS_MISMATCH"},
         "a rectangle with a row for every layer",
         check::check_layout_shape},
        {{"SLOTS_NOT_DIVISIBLE", "TOO_FEW_SLOTS", "REDUNDANCY_MISMATCH"},
         "the physical slots are experts + redundant, and divide by the ranks",
         check::check_layout_budget},
        {{"NEGATIVE_EXPERT", "EXPERT_OUT_OF_RANGE", "EXPERTS_NOT_STATED"},
         "every id is an expert of the model",
         check::check_expert_ids},
        {{"EXPERT_MISSING"}, "every expert is in every row", check::check_coverage},
        {{"EXPERT_TWICE_ON_RANK"}, "no expert twice on a rank", check::check_twice_on_rank},
        {{"MORE_REPLICAS_THAN_RANKS", "TOO_MANY_REPLICAS"}, "replicas are within the limits", check::check_replicas},
        {{"NODES_NOT_STATED", "NODES_DO_NOT_DIVIDE"}, "the nodes divide the ranks", check::check_nodes},
        {{"SAME_ROW_IN_ALL_LAYERS"}, "layers differ", check::check_same_rows},
        {{"MANIFEST_DISAGREES"}, "the geometry is that of the manifest", check::check_manifest_geometry},
    };
    return checks;
}

// All rows as long as the first, and none empty.
std::optional<int> common_width(const Rows& map) {
    if (map.empty() || map.front().empty() || map.front().size() > std::numeric_limits<int>::max()) return std::nullopt;
    const bool same =
        std::all_of(map.begin(), map.end(), [&](const auto& row) { return row.size() == map.front().size(); });
    return same ? std::optional<int>(static_cast<int>(map.front().size())) : std::nullopt;
}

int experts_of(const Rows& map, const LayoutExpectation& expectation, std::optional<int> width) {
    if (expectation.experts) return *expectation.experts;
    if (expectation.redundant_total && width && *width > *expectation.redundant_total) {
        return std::min(*width - *expectation.redundant_total, max_experts);
    }
    std::int64_t largest = -1;
    for (const auto& row : map) {
        for (const std::int64_t id : row) largest = std::max(largest, id);
    }
    return static_cast<int>(std::min<std::int64_t>(largest, max_experts - 1)) + 1;
}

LayoutContext context_of(const RawLayout& layout, const LayoutExpectation& expectation) {
    const LayoutTarget& target = expectation.target ? *expectation.target : find_layout_target("generic");
    LayoutContext context{layout, expectation, target, 0, common_width(layout.rows)};
    context.experts = experts_of(layout.rows, expectation, context.width);
    if (context.width && *context.width % expectation.ranks == 0) {
        context.slots_per_rank = *context.width / expectation.ranks;
    }
    return context;
}

}  // namespace

namespace check {

std::span<const LayoutCheck> layout_checks() {
    return layout_table();
}

std::string slot_place(const LayoutContext& context, std::size_t layer, std::size_t slot) {
    const std::string place = fmt::format("layer {}, physical slot {}", layer, slot);
    if (!context.slots_per_rank) return place;
    return place + fmt::format(" (rank {})", slot / static_cast<std::size_t>(*context.slots_per_rank));
}

}  // namespace check

std::span<const LayoutTarget> layout_targets() {
    return targets;
}

const LayoutTarget& find_layout_target(std::string_view name) {
    std::string names;
    for (const LayoutTarget& target : targets) {
        if (target.name == name) return target;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", target.name);
    }
    throw Error(ErrorCode::usage, "--target", fmt::format("'{}' is not a target", name), "one of " + names);
}

LayoutReport check_layout(const RawLayout& layout, const LayoutExpectation& expectation) {
    const LayoutContext context = context_of(layout, expectation);
    LayoutReport report;
    bool too_large = false;  // for any model: the checks that follow would take time for each row and expert
    for (const LayoutCheck& check : layout_table()) {
        if (too_large) break;
        for (Finding& finding : check.run(context)) {
            too_large = too_large || finding.code == "LAYOUT_TOO_LARGE";
            report.findings.push_back(std::move(finding));
        }
    }
    sort_by_severity(report.findings);
    if (context.slots_per_rank && context.experts > 0) {
        report.geometry =
            Geometry{static_cast<int>(layout.rows.size()), context.experts, expectation.ranks, *context.slots_per_rank};
    }
    return report;
}

std::vector<Finding> check_layout(const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    RawLayout raw;
    raw.rows.resize(static_cast<std::size_t>(geometry.layers));
    for (int layer = 0; layer < geometry.layers; ++layer) {
        for (const ExpertId expert : layout.row(layer))
            raw.rows[static_cast<std::size_t>(layer)].push_back(expert.value);
    }
    LayoutExpectation expectation;
    expectation.ranks = geometry.ranks;
    expectation.experts = geometry.experts;
    std::vector<Finding> findings = check_layout(raw, expectation).findings;
    std::erase_if(findings, [](const Finding& finding) { return finding.severity != Severity::error; });
    return findings;
}

std::vector<std::string_view> layout_codes() {
    std::vector<std::string_view> all;
    for (const LayoutCheck& check : layout_table()) all.insert(all.end(), check.codes.begin(), check.codes.end());
    return all;
}

}  // namespace eplb
