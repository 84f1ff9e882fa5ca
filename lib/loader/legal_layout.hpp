// Layouts and tables that may be put in force: read, judged and refused in one place.
#pragma once

#include <optional>
#include <string>

#include "core/dispatch_table.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"

namespace eplb {

struct AdmittedLayout {
    LayoutFile file;
    std::optional<Manifest> manifest;
};

// Throws Error{input} with the reasons, the most severe first, unless every row covers every expert and no rank holds
// one twice.
void require_legal(const Layout& layout);

// Throws Error{input} with the first entry of the table that is no slot of its expert.
void require_table(const Layout& layout, const DispatchTable& table);

// A legal layout and the manifest beside it. R and E are the manifest's; `ranks` must agree with it, or stands in for
// it with `allow_no_manifest`. Throws Error{input} when there is no manifest, when it belongs to another file or says
// something else than the map, and when the layout is not legal.
AdmittedLayout read_legal_layout(const std::string& path, std::optional<int> ranks, bool allow_no_manifest);

}  // namespace eplb
