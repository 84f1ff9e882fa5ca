// Does a dispatch table go with a layout?
#pragma once

#include <vector>

#include "core/dispatch_table.hpp"
#include "core/finding.hpp"
#include "core/layout.hpp"

namespace eplb {

// Shape, range, and that every target hosts the expert. Errors TABLE_SHAPE_MISMATCH, TABLE_SLOT_OUT_OF_RANGE,
// TABLE_WRONG_EXPERT; info REPLICAS_UNUSED.
std::vector<Finding> check_dispatch_table(const DispatchTable& table, const Layout& layout);

}  // namespace eplb
