// Scores of whole layouts: the balancedness of every layer over chosen record slots.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/counts.hpp"
#include "core/layout.hpp"
#include "core/record_split.hpp"
#include "dispatch/model.hpp"
#include "score/balance.hpp"

namespace eplb {

// Which of the non-zero record slots are scored.
enum class Part { fit, holdout, all };

Part parse_part(std::string_view name);  // throws Error{usage} that lists the names
std::string_view name_of(Part part);
std::vector<int> record_slots_of(const RecordSplit& split, Part part);  // ascending

// Loads of the busiest and of the average rank for every layer and record slot, [L, T] row-major: what each step of a
// layer waits for, and what it would wait for if the ranks were equal.
struct StepLoads {
    int layers = 0, slots = 0;
    std::vector<double> max, mean;

    std::size_t at(int layer, int slot) const {
        return static_cast<std::size_t>(layer) * static_cast<std::size_t>(slots) + static_cast<std::size_t>(slot);
    }
};

struct LayoutScore {
    std::vector<std::optional<LayerBalance>> layers;  // [L]; empty where a layer has no counts
    StepLoads steps;

    int layers_scored() const;
};

// A layout with the shares its dispatch model gives. Neither is owned.
struct Placement {
    const Layout* layout = nullptr;
    const ReplicaShares* shares = nullptr;
};

// One score per placement. The layouts agree with the counts in layers and experts (Error{input} otherwise), not
// necessarily with each other in ranks and slots. Each layer's counts are read once; results do not depend on
// `threads`.
std::vector<LayoutScore> score_layouts(const Counts& counts, std::span<const int> record_slots,
                                       std::span<const Placement> placements, int threads);

LayoutScore score_layout(const Counts& counts, std::span<const int> record_slots, const Layout& layout,
                         const ReplicaShares& shares, int threads);

}  // namespace eplb
