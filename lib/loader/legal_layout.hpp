// Layouts and tables that may be put in force: read, judged and refused in one place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/layout.hpp"
#include "core/dispatch_table.hpp"
#include "core/finding.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"

namespace eplb {

// What is known of the deployment when a layout file is judged; what is not given is the manifest's.
struct LayoutDemands {
    std::optional<int> ranks, experts, nodes;
    const LayoutTarget* target = nullptr;  // null: generic
    bool allow_no_manifest = false;
};

// A layout file and the manifest beside it, as far as they can be trusted, and all that is wrong with them.
struct JudgedLayout {
    std::string sha256;                // of the file
    std::optional<Manifest> manifest;  // only one that belongs to this file
    std::optional<Layout> layout;      // only a legal one
    std::vector<Finding> findings;     // NO_MANIFEST, MANIFEST_UNUSABLE, and those of check_layout
};

// Throws Error{input} only for a file that cannot be read or is no layout at all.
JudgedLayout judge_layout(const std::string& path, const LayoutDemands& demands);

struct LegalLayout {
    LayoutFile file;
    std::optional<Manifest> manifest;
};

// The same for a caller that takes only a layout without an error finding: throws Error{input} with the reasons, and
// when the number of ranks is neither the manifest's nor given.
LegalLayout read_legal_layout(const std::string& path, const LayoutDemands& demands);

// Throws Error{input} with the reasons, the most severe first, unless every row covers every expert and no rank holds
// one twice.
void require_legal(const Layout& layout);

// Throws Error{input} with the first entry of the table that is no slot of its expert.
void require_table(const Layout& layout, const DispatchTable& table);

}  // namespace eplb
