// SGLang's `static` dispatch, generations A, B and C: nearest replica first, the ranks left over dealt by one seeded
// CPython random stream a table.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "dispatch/fair_fill.hpp"
#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"

namespace eplb::dispatch {
namespace {

Slots first_where(Slots replicas, auto condition) {
    const auto found = std::find_if(replicas.begin(), replicas.end(), condition);
    return {found, found == replicas.end() ? found : found + 1};
}

// The replica nearest to the source rank, or nothing when every one is on another node.
Slots nearest(const DispatchSource& source, Slots replicas) {
    if (replicas.size() == 1) return replicas;
    const Slots local = first_where(replicas, [&](SlotId slot) { return source.rank_of(slot) == source.rank; });
    if (!local.empty()) return local;
    return first_where(replicas, [&](SlotId slot) { return source.node_of(slot) == source.node(); });
}

Slots local_replica(const DispatchSource& source, Slots replicas) {
    return first_where(replicas, [&](SlotId slot) { return source.rank_of(slot) == source.rank; });
}

// Generations A and B: the table of all ranks from one stream. A looks for a local replica only and draws for every
// expert, also for those with one replica.
template <class Preferred>
DispatchTable one_stream_table(const Layout& layout, const DispatchContext& context, bool draw_always,
                               Preferred preferred) {
    const Geometry& geometry = layout.geometry();
    const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
    DispatchTable table = make_table(geometry);
    FairFill fill;
    std::vector<int> unserved;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const ReplicaLists lists(layout, layer);
        for (int expert = 0; expert < geometry.experts; ++expert) {
            const Slots replicas = lists.of(expert);
            const auto column = static_cast<std::size_t>(expert);
            unserved.clear();
            for (const DispatchSource& source : sources) {
                const Slots chosen = preferred(source, replicas);
                if (chosen.empty()) {
                    unserved.push_back(source.rank);
                } else {
                    table.row(source.rank, layer)[column] = chosen.front();
                }
            }
            if (unserved.empty() && !draw_always) continue;
            const Slots dealt = fill(replicas, unserved.size());
            for (std::size_t i = 0; i < unserved.size(); ++i) table.row(unserved[i], layer)[column] = dealt[i];
        }
    }
    return table;
}

}  // namespace

Slots local_or_all_targets(const DispatchSource& source, Slots replicas, int) {
    const Slots local = local_replica(source, replicas);
    return local.empty() ? replicas : local;
}

Slots nearest_or_all_targets(const DispatchSource& source, Slots replicas, int) {
    const Slots chosen = nearest(source, replicas);
    return chosen.empty() ? replicas : chosen;
}

int nearest_settled(std::span<const DispatchSource> sources, Slots replicas, std::span<int> settled) {
    const DispatchSource& any = sources.front();
    int unsettled = static_cast<int>(sources.size());
    if (replicas.size() == 1) {
        settled.front() = unsettled;
        return 0;
    }
    // In slot order the replicas of a node follow each other, and so do those of a rank.
    std::size_t first_on_node = 0;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
        settled[i] = 0;
        if (i == 0 || any.node_of(replicas[i]) != any.node_of(replicas[first_on_node])) {
            first_on_node = i;
            settled[i] = any.ranks_per_node;
            unsettled -= any.ranks_per_node;
        } else if (any.rank_of(replicas[i]) != any.rank_of(replicas[i - 1])) {
            settled[i] = 1;
            --settled[first_on_node];
        }
    }
    return unsettled;
}

DispatchTable sglang_a_table(const Layout& layout, const DispatchContext& context) {
    return one_stream_table(layout, context, true, local_replica);
}

DispatchTable sglang_b_table(const Layout& layout, const DispatchContext& context) {
    return one_stream_table(layout, context, false, nearest);
}

// Generation C: rank q first collapses the list of every expert that has a replica near q to that one, and builds a
// table of all ranks from what is left, of which it keeps row q. Its stream is therefore drawn from only for the
// experts that q has no replica near: every rank needs a pass of its own, with its own stream.
DispatchTable sglang_c_table(const Layout& layout, const DispatchContext& context) {
    const Geometry& geometry = layout.geometry();
    const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
    DispatchTable table = make_table(geometry);
    std::vector<FairFill> fills(sources.size());
    std::vector<int> unserved;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const ReplicaLists lists(layout, layer);
        for (int expert = 0; expert < geometry.experts; ++expert) {
            const Slots replicas = lists.of(expert);
            const auto column = static_cast<std::size_t>(expert);
            unserved.clear();
            for (const DispatchSource& source : sources) {
                const Slots chosen = nearest(source, replicas);
                if (chosen.empty()) {
                    unserved.push_back(source.rank);
                } else {
                    table.row(source.rank, layer)[column] = chosen.front();
                }
            }
            for (std::size_t i = 0; i < unserved.size(); ++i) {
                const auto rank = static_cast<std::size_t>(unserved[i]);
                table.row(unserved[i], layer)[column] = fills[rank](replicas, unserved.size())[i];
            }
        }
    }
    return table;
}

}  // namespace eplb::dispatch
