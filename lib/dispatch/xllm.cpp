// xLLM: the copy with index (rank + MoE tensor-parallel rank) modulo count, in slot order. MoE tensor parallelism of
// size 1 is assumed, so that the second term is 0.
#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"

namespace eplb::dispatch {

Slots xllm_targets(const DispatchSource& source, Slots replicas, int) {
    return replicas.subspan(static_cast<std::size_t>(source.rank) % replicas.size(), 1);
}

DispatchTable xllm_table(const Layout& layout, const DispatchContext& context) {
    return table_of_rule(layout, context, xllm_targets);
}

}  // namespace eplb::dispatch
