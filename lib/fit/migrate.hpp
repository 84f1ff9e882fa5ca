// From the layout in service to a fitted one: which rows are worth a change, and how the others change least.
#pragma once

#include <vector>

#include "core/layout.hpp"
#include "score/layout_score.hpp"

namespace eplb {

// [L]: layers whose current row stays, because its step value would fall by less than `min_gain` (a ratio to the
// current value), or because the layer has no counts. Both scores are over the same record slots. A row that is illegal
// never stays, and none does when the geometries differ.
std::vector<bool> rows_to_keep(const Layout& current, const LayoutScore& current_score, const Layout& wanted,
                               const LayoutScore& wanted_score, double min_gain);

// The current row where `keep` says so, else the wanted row with ranks and slots named so that as few experts as
// possible move (relabel_row). The layouts agree in layers, experts and ranks.
Layout migrate(const Layout& current, const Layout& wanted, const std::vector<bool>& keep);

// moved_slots() of every layer, [L].
std::vector<int> moved_slots_by_layer(const Layout& current, const Layout& next);

}  // namespace eplb
