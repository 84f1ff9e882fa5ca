// The functions behind the table of dispatch models, one per file.
#pragma once

#include "dispatch/model.hpp"

namespace eplb::dispatch {

ReplicaShares even_shares(const Layout& layout, const DispatchContext& context);

}  // namespace eplb::dispatch
