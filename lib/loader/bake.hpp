// Checkpoints in the order of a layout: for servers without expert-parallel load balancing (bake), and one file a rank
// with its physical experts in slot order (slots).
#pragma once

#include <string>
#include <vector>

#include "core/layout.hpp"
#include "core/progress.hpp"
#include "layout_io/layout_file.hpp"
#include "loader/checkpoint.hpp"
#include "loader/checkpoint_record.hpp"

namespace eplb {

// Throws Error{infeasible} unless the layout has no redundancy and, where `groups` > 1, every group of E / groups
// neighbouring slots holds the experts of one group: a router that is limited to groups would choose others.
void require_bakeable(const Layout& layout, const std::vector<int>& rows, int groups);

// Writes to `out` a checkpoint in which expert p of layer l is what expert map[l][p] was, in every tensor: the experts'
// own, the router's rows and bias, the hash-routing table. A server that knows nothing of a layout then runs it. Every
// other file is copied. Memory: the largest router tensor and 16 MB.
// A source that an earlier bake wrote is refused unless `compose`; with `force` only a folder that holds our record and
// no input is replaced.
CheckpointRecord bake_checkpoint(const Checkpoint& checkpoint, const ModelFamily& family, const LayoutFile& layout,
                                 const std::string& out, bool force, const Progress& progress, bool compose = false);

// Writes to `out` one safetensors file a rank: for every layer and kind of tensor the rank's experts stacked in slot
// order, [S, ...], under the expert's name without its number.
CheckpointRecord write_rank_slots(const Checkpoint& checkpoint, const ModelFamily& family, const LayoutFile& layout,
                                  const std::string& out, bool force, const Progress& progress);

}  // namespace eplb
