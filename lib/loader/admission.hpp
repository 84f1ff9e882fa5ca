// Admission: may this layout be put in force on that server? Decided before any weight is read.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dispatch_table.hpp"
#include "core/finding.hpp"
#include "core/layout.hpp"
#include "dispatch/model.hpp"
#include "layout_io/manifest.hpp"
#include "loader/server_facts.hpp"

namespace eplb {

struct AdmissionRequest {
    std::string layout_path;
    std::optional<std::string> table_path;    // else the table the manifest names, if it lies beside the layout
    std::optional<std::string> current_path;  // layout in force now, for what would move
    std::optional<std::string> expect_path;   // attestation that must still hold
    bool allow_no_manifest = false;
    std::string engine = "generic";
    ServerFacts facts;
};

// What is known when the rules run. The map has passed the layout checks as far as `layout` is there.
struct AdmissionCase {
    const AdmissionRequest& request;
    const EngineProfile& profile;
    std::string layout_sha256 = {};  // of the file
    std::optional<Manifest> manifest = {};
    std::optional<Layout> layout = {};
    const DispatchModel* dispatch = nullptr;
    std::optional<DispatchContext> dispatch_context = {};
    std::optional<DispatchTable> table = {};
    std::optional<std::string> table_sha256 = {};  // of the file it was read from
    std::optional<Layout> current = {};

    const ServerFacts& facts() const { return request.facts; }
};

// One line of the table of rules. `findings` gets what the rule has to say; an error refuses the layout.
struct AdmissionRule {
    std::string_view code;     // of its findings
    std::string_view origin;   // L1 ... L26 of the published list of checks
    std::string_view summary;  // one line for docs
    void (*run)(const AdmissionCase& admission, std::vector<Finding>& findings);
};
std::span<const AdmissionRule> admission_rules();

// What was admitted, by content: the same on every machine that loads it.
struct Attestation {
    std::string layout_name, layout_sha256, map_hash;  // base name
    std::optional<std::string> table_sha256;
    Geometry geometry;
    std::string engine;
    std::optional<std::string> dispatch;
    std::vector<std::vector<int>> first_row;                 // by rank: logical experts of its slots, row 0
    std::vector<std::pair<std::string, std::string>> facts;  // ascending names
    bool operator==(const Attestation&) const = default;
};

// Texts are made printable(). Throws Error{internal} when decode_attestation() would not make the same of it.
std::string encode_attestation(const Attestation& attestation);
// Throws Error{input} with the JSON path for unknown, duplicate or missing keys and for what the schema does not allow.
Attestation decode_attestation(std::string_view text);
// A line for everything in which `now` is not what was attested.
std::vector<std::string> differences(const Attestation& attested, const Attestation& now);

struct AdmissionReport {
    std::vector<Finding> findings;           // most severe first
    std::optional<Attestation> attestation;  // of an admitted layout
    std::optional<DispatchTable> table;      // that was judged: read, or computed by the server's rule
    bool admitted() const { return attestation.has_value(); }
};

// One line: code, place, message and remedy.
std::string line_of(const Finding& finding);

// The object of `eplb-load check --json`, one line (data/schemas/load-check.schema.json).
std::string encode_admission(const AdmissionReport& report);

// Reads the files, runs the layout checks and the rules. A file that cannot be read or decoded is Error{input}; all
// that is merely wrong is a finding.
AdmissionReport admit(const AdmissionRequest& request);

}  // namespace eplb
