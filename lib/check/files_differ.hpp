// Do several windows come from one load?
#pragma once

#include <span>
#include <vector>

#include "check/counts.hpp"

namespace eplb::check {

// Warning FILES_DIFFER, where the traffic of a file sits on other experts than that of the first. Nothing for the ranks
// of one window.
void check_files_differ(std::span<const CountReport> reports, std::vector<Finding>& findings);

}  // namespace eplb::check
