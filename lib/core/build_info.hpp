// What this build is: printed by --version and written into manifests.
#pragma once

#include <string_view>

namespace eplb {

std::string_view version();  // "0.1.0"
std::string_view commit();   // 12 hex digits, or "unknown" outside a git checkout

}  // namespace eplb
