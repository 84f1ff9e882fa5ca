// Names the ranks and slots of a new row so that as few experts as possible move from the row in service.
#pragma once

#include <span>
#include <vector>

#include "core/ids.hpp"
#include "core/layout.hpp"

namespace eplb {

// `wanted` fixes only which experts share a rank: every rank's set of experts goes to the rank of `current` that makes
// the total overlap largest (an assignment problem, solved exactly), and an expert that stays on its rank keeps its
// local slot; the others take the free slots in ascending order. The rows may differ in slots a rank. Balancedness
// under a dispatch model that treats all ranks alike does not change.
std::vector<ExpertId> relabel_row(std::span<const ExpertId> wanted, std::span<const ExpertId> current, int experts,
                                  int ranks);

// Physical slots of a row whose rank does not hold the slot's expert in `current`: weights that must be fetched.
int moved_slots(std::span<const ExpertId> row, std::span<const ExpertId> current, int experts, int ranks);

}  // namespace eplb
