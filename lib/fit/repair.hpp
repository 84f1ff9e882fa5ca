// Making a row legal whose ranks may hold an expert twice.
#pragma once

#include <span>

#include "core/ids.hpp"

namespace eplb {

// What repair_row had to do.
struct Repair {
    int replaced = 0;   // replicas beyond one a rank, given to other experts
    int exchanged = 0;  // second replicas on a rank, exchanged with another rank
};

// Makes legal a row [ranks * S], S <= E <= ranks * S, that covers every expert. A legal row stays as it is. Each
// exchange is the one that leaves the smallest load on the busier of the two ranks. weights: [E], finite, >= 0: loads
// of the experts, evenly split over their replicas.
Repair repair_row(std::span<ExpertId> row, std::span<const double> weights, int ranks);

}  // namespace eplb
