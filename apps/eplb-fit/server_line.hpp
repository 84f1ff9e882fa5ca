// How SGLang is started with a layout (docs/formats.md), and what goes wrong in silence.
#pragma once

#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "options.hpp"

namespace eplb {

std::string server_line(const std::string& layout_path, const Geometry& geometry);
std::vector<std::string> server_traps(const Geometry& geometry, const FitOptions& options);  // one short line each

}  // namespace eplb
