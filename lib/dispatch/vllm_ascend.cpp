// vllm-ascend (MRv1): the replica with index rank modulo count, without regard to where it is.
#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"

namespace eplb::dispatch {

Slots vllm_ascend_targets(const DispatchSource& source, Slots replicas, int expert) {
    const int tp = source.tensor_parallel;
    const int index = tp > 1 ? source.rank % tp + source.rank / tp + expert : source.rank;
    return replicas.subspan(static_cast<std::size_t>(index) % replicas.size(), 1);
}

DispatchTable vllm_ascend_table(const Layout& layout, const DispatchContext& context) {
    return table_of_rule(layout, context, vllm_ascend_targets);
}

}  // namespace eplb::dispatch
