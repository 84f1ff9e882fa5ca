// SGLang's dispatch by generation: what is near a source rank, and the table of `static`, in which the ranks that have
// nothing near are dealt a replica from a seeded stream.
#include <algorithm>
#include <cstddef>

#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"
#include "dispatch/static_dealer.hpp"

namespace eplb::dispatch {
namespace {

Slots first_where(Slots replicas, auto condition) {
    const auto found = std::find_if(replicas.begin(), replicas.end(), condition);
    return {found, found == replicas.end() ? found : found + 1};
}

}  // namespace

bool prefers_node(const SeededRule& rule, const DispatchSource& any, Slots replicas) {
    switch (rule.node) {
        case NodePreference::none:
            return false;
        case NodePreference::always:
            return true;
        case NodePreference::where_part:
            // In slot order the replicas of a node follow each other.
            return any.node_of(replicas.front()) != any.node_of(replicas.back());
    }
    return false;
}

Slots near_or_all(const SeededRule& rule, const DispatchSource& source, Slots replicas) {
    if (replicas.size() == 1) return replicas;
    const Slots own = first_where(replicas, [&](SlotId slot) { return source.rank_of(slot) == source.rank; });
    if (!own.empty()) return own;
    if (!prefers_node(rule, source, replicas)) return replicas;
    const Slots on_node = first_where(replicas, [&](SlotId slot) { return source.node_of(slot) == source.node(); });
    return on_node.empty() ? replicas : on_node;
}

int settled_near(const SeededRule& rule, std::span<const DispatchSource> sources, Slots replicas,
                 std::span<int> settled) {
    const DispatchSource& any = sources.front();
    const int ranks = static_cast<int>(sources.size());
    if (replicas.size() == 1) {
        settled.front() = ranks;
        return 0;
    }
    const bool by_node = prefers_node(rule, any, replicas);
    int unsettled = ranks;
    // In slot order the replicas of a node follow each other, and so do those of a rank.
    std::size_t first_on_node = 0;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
        settled[i] = 0;
        if (by_node && (i == 0 || any.node_of(replicas[i]) != any.node_of(replicas[first_on_node]))) {
            first_on_node = i;
            const int first_rank = any.node_of(replicas[i]) * any.ranks_per_node;
            settled[i] = std::min(any.ranks_per_node, ranks - first_rank);
            unsettled -= settled[i];
        } else if (i == 0 || any.rank_of(replicas[i]) != any.rank_of(replicas[i - 1])) {
            settled[i] = 1;
            --(by_node ? settled[first_on_node] : unsettled);
        }
    }
    return unsettled;
}

DispatchTable seeded_table(const SeededRule& rule, const Layout& layout, const DispatchContext& context) {
    const Geometry& geometry = layout.geometry();
    const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
    DispatchTable table = make_table(geometry, sources.size());
    StaticDealer dealer(rule, sources);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const ReplicaLists lists(layout, layer);
        for (int expert = 0; expert < geometry.experts; ++expert) {
            const Slots replicas = lists.of(expert);
            const auto choice = dealer(replicas);
            for (std::size_t source = 0; source < choice.size(); ++source) {
                table.row(static_cast<int>(source), layer)[static_cast<std::size_t>(expert)] =
                    replicas[static_cast<std::size_t>(choice[source])];
            }
        }
    }
    return table;
}

}  // namespace eplb::dispatch
