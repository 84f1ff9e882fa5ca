// Dispatch models: the rule that picks, for a token on a source rank, the replica that serves it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/dispatch_table.hpp"
#include "core/layout.hpp"

namespace eplb {

// What a model needs to know about the deployment beside the layout.
struct DispatchContext {
    std::optional<int> nodes;              // hosts that the ranks are spread over, contiguously
    int tensor_parallel = 1;               // vllm-ascend's TP variant
    std::vector<double> source_weights;    // [R] share of the traffic each source rank sends, sums to 1; empty: equal
    const DispatchTable* table = nullptr;  // for the model "table"
};

// Shares of every physical slot in its expert's traffic, [L, P] row-major; the shares of one expert's replicas sum
// to 1.
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

// One line of the table of models. The layout covers every expert in every row.
struct DispatchModel {
    std::string_view name;     // --dispatch NAME
    std::string_view summary;  // one line for help and docs
    bool needs_nodes = false;  // --nodes must be given
    // Static models: the table of every source rank, [R, L, E]. Null where the choice is made per token.
    DispatchTable (*table)(const Layout& layout, const DispatchContext& context) = nullptr;
    // Expected shares. Static models may leave it null: shares then follow from the table and the source weights.
    ReplicaShares (*shares)(const Layout& layout, const DispatchContext& context) = nullptr;
};

std::span<const DispatchModel> dispatch_models();

// Throws Error{usage} that lists the names.
const DispatchModel& find_dispatch_model(std::string_view name);

// The shares under a model. Throws Error{usage} when the context lacks what the model needs, Error{input} when an
// expert of a row has no replica or the context does not fit the layout.
ReplicaShares replica_shares(const DispatchModel& model, const Layout& layout, const DispatchContext& context);

}  // namespace eplb
