// omni-infer: a replica on the rank itself, else the same-host replicas by rank modulo their number, else all of them
// by rank modulo their number.
#include <algorithm>

#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"

namespace eplb::dispatch {

Slots omni_targets(const DispatchSource& source, Slots replicas, int) {
    const auto local = std::find_if(replicas.begin(), replicas.end(),
                                    [&](SlotId slot) { return source.rank_of(slot) == source.rank; });
    if (local != replicas.end()) return {local, local + 1};
    // Ranks of a host are contiguous, hence so are its replicas.
    const auto on_host = [&](SlotId slot) { return source.node_of(slot) == source.node(); };
    const auto begin = std::find_if(replicas.begin(), replicas.end(), on_host);
    const auto end = std::find_if_not(begin, replicas.end(), on_host);
    const Slots choice = begin == end ? replicas : Slots(begin, end);
    return choice.subspan(static_cast<std::size_t>(source.rank) % choice.size(), 1);
}

DispatchTable omni_table(const Layout& layout, const DispatchContext& context) {
    return table_of_rule(layout, context, omni_targets);
}

}  // namespace eplb::dispatch
