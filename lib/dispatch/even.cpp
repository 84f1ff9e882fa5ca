// Every replica of an expert gets the same share: what most fitters assume, and what per-token choice gives in
// expectation.
#include "dispatch/models.hpp"

namespace eplb::dispatch {

ReplicaShares even_shares(const Layout& layout, const DispatchContext&) {
    const Geometry& geometry = layout.geometry();
    ReplicaShares shares{geometry.layers, geometry.physical_slots(), {}};
    shares.values.resize(static_cast<std::size_t>(geometry.layers) *
                         static_cast<std::size_t>(geometry.physical_slots()));
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const auto row = layout.row(layer);
        const std::vector<int> replicas = replica_counts(row, geometry.experts);
        const auto row_shares = shares.row(layer);
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            row_shares[slot] = 1.0 / replicas[static_cast<std::size_t>(row[slot].value)];
        }
    }
    return shares;
}

}  // namespace eplb::dispatch
