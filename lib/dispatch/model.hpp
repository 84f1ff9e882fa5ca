// Dispatch models: the rule that picks, for a token on a source rank, the replica that serves it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/dispatch_table.hpp"
#include "core/layout.hpp"

namespace eplb {

// What a model needs to know about the deployment beside the layout.
struct DispatchContext {
    std::optional<int> nodes;     // hosts that the ranks are spread over, contiguously; divides R
    int tensor_parallel = 1;      // --tp: vllm-ascend's TP variant
    int moe_tensor_parallel = 1;  // processes that share the experts of one EP rank
    int pipeline_stages = 1;
    std::vector<double> source_weights;    // [R] traffic that each source rank sends, in any unit; empty: equal
    const DispatchTable* table = nullptr;  // for the model "table"
};

// Shares of every physical slot in its expert's traffic, [L, P] row-major; the shares of one expert's replicas, added
// in slot order, are exactly 1.
struct ReplicaShares {
    int layers = 0, slots = 0;
    std::vector<double> values;
    std::span<const double> row(int layer) const {
        return {values.data() + static_cast<std::size_t>(layer) * static_cast<std::size_t>(slots),
                static_cast<std::size_t>(slots)};
    }
    std::span<double> row(int layer) {
        return {values.data() + static_cast<std::size_t>(layer) * static_cast<std::size_t>(slots),
                static_cast<std::size_t>(slots)};
    }
};

// Whether SGLang looks for a replica on the source's node when the source rank has none: `where_part` only where the
// node holds some replicas of the expert and not all of them.
enum class NodePreference { none, always, where_part };

// How a generation of SGLang makes the table of `static`. Layers, then experts ascending; ranks that have no replica
// near are dealt one by a fill from a seeded stream.
struct SeededRule {
    NodePreference node = NodePreference::none;
    bool deals_single = false;    // the fill is asked for experts with one replica, too: that moves the stream
    bool own_streams = false;     // each rank first shortens its lists to what is near: so each has a stream of its own
    bool row_of_ep_rank = false;  // a process uses the row of its EP rank, not that of its global rank modulo R
};

// One source rank, with what its choice may depend on. Where R is the number of processes, `rank` is `process`.
struct DispatchSource {
    int rank = 0;             // EP rank of the tokens
    int process = 0;          // global rank
    int ranks = 1;            // R
    int slots_per_rank = 1;   // S
    int ranks_per_node = 1;   // R / nodes, rounded down
    int tensor_parallel = 1;  // --tp

    int table_row(const SeededRule& rule) const { return rule.row_of_ep_rank ? rank : process % ranks; }

    int rank_of(SlotId slot) const { return slot.value / slots_per_rank; }
    int node_of(SlotId slot) const { return rank_of(slot) / ranks_per_node; }
    int node() const { return rank / ranks_per_node; }
};

// One line of the table of models.
struct DispatchModel {
    std::string_view name;              // --dispatch NAME
    std::string_view summary;           // one line for help and docs
    bool needs_nodes = false;           // --nodes must be given
    bool uses_tensor_parallel = false;  // --tp changes what it does
    // The part of `replicas` (all slots of `expert` in the row, ascending, not empty) that the source rank sends to:
    // one of them, or all, each equally often in expectation. Null for "table", whose choice is no function of the
    // replicas.
    std::span<const SlotId> (*targets)(const DispatchSource& source, std::span<const SlotId> replicas,
                                       int expert) = nullptr;
    // Static models: the table that the engine builds, [R, L, E]. Null where the choice is made per token.
    DispatchTable (*table)(const Layout& layout, const DispatchContext& context) = nullptr;
    // The table is dealt from seeded streams, whose state depends on all layers before. Null: it is not.
    const SeededRule* seeded = nullptr;
    // How many sources end at each replica for good, and how many choose among all of them: what `targets` says of all
    // sources, found faster. Null: `targets` is asked.
    int (*settled)(std::span<const DispatchSource> sources, std::span<const SlotId> replicas,
                   std::span<int> settled) = nullptr;
};

std::span<const DispatchModel> dispatch_models();

// Throws Error{usage} that lists the names.
const DispatchModel& find_dispatch_model(std::string_view name);

// Whether every source rank sends to all replicas alike: an even split in expectation.
bool is_even(const DispatchModel& model);

// Throws Error{usage} when the context lacks what the model needs.
void require_context(const DispatchModel& model, const DispatchContext& context);

// The table of every source rank under a static model. Throws Error{usage} when the model has no table or the context
// lacks what it needs, Error{input} when an expert of a row has no replica.
DispatchTable dispatch_table(const DispatchModel& model, const Layout& layout, const DispatchContext& context);

// The shares under a model: from its table where it has one, else expected. `table`: that of the same model, layout and
// context where it is at hand. Throws as dispatch_table does.
ReplicaShares replica_shares(const DispatchModel& model, const Layout& layout, const DispatchContext& context,
                             const DispatchTable* table = nullptr);

// The source ranks of a deployment, [R]. Throws Error{usage} when the context is not one (--nodes that does not divide
// R, --tp below 1).
std::vector<DispatchSource> dispatch_sources(const Geometry& geometry, const DispatchContext& context);

// The largest share of a replica over the even share of its expert's replicas, over all layers: >= 1.
double replica_share_max_over_mean(const Layout& layout, const ReplicaShares& shares);

// How many of the sources end at each replica for good (`settled`, of the size of `replicas`), under any seed; returns
// how many may end at every one of them, by chance or seeded fill. A function of the expert's replicas alone, as a fit
// needs it. The model has `targets`.
int settled_sources(const DispatchModel& model, std::span<const DispatchSource> sources,
                    std::span<const SlotId> replicas, int expert, std::span<int> settled);

// Whether a replica that goes to another rank of its node changes what a seeded fill deals from then on: so where ranks
// have streams of their own, and an own replica is what keeps a rank from drawing.
bool place_moves_streams(const DispatchModel& model, const DispatchSource& any, std::span<const SlotId> replicas);

}  // namespace eplb
