#include "score/layout_score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "core/parallel_loop.hpp"

namespace eplb {

Part parse_part(std::string_view name) {
    for (const Part part : {Part::fit, Part::holdout, Part::all}) {
        if (name == name_of(part)) return part;
    }
    throw Error(ErrorCode::usage, "--part", fmt::format("'{}' is not fit, holdout or all", name));
}

std::string_view name_of(Part part) {
    switch (part) {
        case Part::fit:
            return "fit";
        case Part::holdout:
            return "holdout";
        case Part::all:
            return "all";
    }
    return "all";
}

std::vector<int> record_slots_of(const RecordSplit& split, Part part) {
    if (part == Part::fit) return split.fit;
    if (part == Part::holdout) return split.holdout;
    std::vector<int> slots;
    std::merge(split.fit.begin(), split.fit.end(), split.holdout.begin(), split.holdout.end(),
               std::back_inserter(slots));
    return slots;
}

int LayoutScore::layers_scored() const {
    return static_cast<int>(std::count_if(layers.begin(), layers.end(), [](const auto& layer) { return layer; }));
}

std::vector<LayoutScore> score_layouts(const Counts& counts, std::span<const int> record_slots,
                                       std::span<const Placement> placements, int threads) {
    const int layers = counts.layers(), slots = static_cast<int>(record_slots.size());
    const std::size_t cells = static_cast<std::size_t>(layers) * record_slots.size();
    std::vector<LayoutScore> scores;
    for (const Placement& placement : placements) {
        const Geometry& geometry = placement.layout->geometry();
        if (geometry.layers != layers || geometry.experts != counts.experts()) {
            throw Error(ErrorCode::input, "",
                        fmt::format("a layout of {} layers x {} experts does not go with counts of {} x {}",
                                    geometry.layers, geometry.experts, layers, counts.experts()));
        }
        scores.push_back({std::vector<std::optional<LayerBalance>>(static_cast<std::size_t>(layers)),
                          {layers, slots, std::vector<double>(cells), std::vector<double>(cells)}});
    }
    for_each_index(layers, threads, [&](int layer) {
        const LayerCounts layer_counts = gather(counts, layer, record_slots);
        for (std::size_t index = 0; index < placements.size(); ++index) {
            const auto& [layout, shares] = placements[index];
            LayoutScore& score = scores[index];
            const LayerLoads loads =
                layer_loads(layer_counts, layout->row(layer), shares->row(layer), layout->geometry().ranks);
            score.layers[static_cast<std::size_t>(layer)] = balance(loads);
            const auto first = static_cast<std::ptrdiff_t>(score.steps.at(layer, 0));
            std::copy(loads.step_max.begin(), loads.step_max.end(), score.steps.max.begin() + first);
            std::copy(loads.step_mean.begin(), loads.step_mean.end(), score.steps.mean.begin() + first);
        }
    });
    return scores;
}

LayoutScore score_layout(const Counts& counts, std::span<const int> record_slots, const Layout& layout,
                         const ReplicaShares& shares, int threads) {
    const Placement placement{&layout, &shares};
    return std::move(score_layouts(counts, record_slots, {&placement, 1}, threads).front());
}

}  // namespace eplb
