// The geometry as an object of the files that the loader writes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/geometry.hpp"
#include "files/json_document.hpp"

namespace eplb {

nlohmann::ordered_json geometry_members(const Geometry& geometry);

// Throws Error{input} with the JSON path for unknown and missing keys and for extents that no layout has.
Geometry read_geometry_members(const JsonValue& value);

}  // namespace eplb
