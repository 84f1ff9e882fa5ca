// The replicas of every expert of one layout row, in slot order: what all dispatch rules choose from.
#pragma once

#include <span>
#include <vector>

#include "dispatch/model.hpp"

namespace eplb::dispatch {

class ReplicaLists {
  public:
    // Throws Error{input} that names the layer and the expert when an expert has no replica.
    ReplicaLists(const Layout& layout, int layer);
    // Of a row [R*S] by itself.
    ReplicaLists(std::span<const ExpertId> row, int experts);

    // Ascending slots, never empty.
    std::span<const SlotId> of(int expert) const {
        const auto e = static_cast<std::size_t>(expert);
        return {slots_.data() + first_[e], first_[e + 1] - first_[e]};
    }

  private:
    std::vector<std::size_t> first_;  // [E + 1]
    std::vector<SlotId> slots_;       // [P]
};

// An empty table for a layout, with a row for each source. Throws Error{input} when it would hold more than 2^30
// entries.
DispatchTable make_table(const Geometry& geometry, std::size_t sources);

// The table of a rule that always leaves one replica to choose from: targets(source, replicas, expert).
template <class Targets>
DispatchTable table_of_rule(const Layout& layout, const DispatchContext& context, Targets targets) {
    const Geometry& geometry = layout.geometry();
    const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
    DispatchTable table = make_table(geometry, sources.size());
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const ReplicaLists lists(layout, layer);
        for (const DispatchSource& source : sources) {
            const auto row = table.row(source.rank, layer);
            for (int expert = 0; expert < geometry.experts; ++expert) {
                row[static_cast<std::size_t>(expert)] = targets(source, lists.of(expert), expert).front();
            }
        }
    }
    return table;
}

}  // namespace eplb::dispatch
