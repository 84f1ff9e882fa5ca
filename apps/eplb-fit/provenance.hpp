// The manifest of a fit.
#pragma once

#include "layout_io/manifest.hpp"
#include "report.hpp"

namespace eplb {

// report.fitted is there, with the hashes of its layout.
Manifest manifest_of(const FitReport& report);

}  // namespace eplb
