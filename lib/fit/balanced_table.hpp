// From replica shares in whole source ranks to the table that says which rank sends where.
#pragma once

#include <span>

#include "core/dispatch_table.hpp"
#include "dispatch/model.hpp"

namespace eplb {

// Fills one layer of `table`. row: [R*S]. ranks_served: [R*S], source ranks that each slot serves; whole numbers, those
// of an expert's replicas add up to R. A rank with a replica that serves any rank is served by it; of the others as
// many as possible are served on their node; the rest by what is left. Everything in ascending order, the replica with
// the most left to serve first.
void fill_balanced_layer(DispatchTable& table, int layer, std::span<const ExpertId> row,
                         std::span<const double> ranks_served, std::span<const DispatchSource> sources);

}  // namespace eplb
