#include "loader/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "check/layout.hpp"
#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/layout_file.hpp"

namespace eplb {
namespace {

// Engines that the layout checks know by another name have the same demands on the map.
const LayoutTarget* target_of(std::string_view engine) {
    for (const LayoutTarget& target : layout_targets()) {
        if (target.name == engine) return &target;
    }
    return nullptr;
}

// The manifest, or a finding that says why the one that lies there does not count.
std::optional<Manifest> manifest_of(const std::string& path, const std::string& sha256,
                                    std::vector<Finding>& findings) {
    try {
        return find_manifest(path, sha256);
    } catch (const Error& error) {
        findings.push_back({Severity::error, "MANIFEST_UNUSABLE", error.where(), error.message(), error.hint()});
        return std::nullopt;
    }
}

LayoutExpectation expectation_of(const AdmissionRequest& request, const std::optional<Manifest>& manifest, int ranks) {
    LayoutExpectation expectation;
    expectation.ranks = ranks;
    expectation.experts = request.facts.number("experts");
    if (!expectation.experts && manifest) expectation.experts = manifest->geometry.experts;
    expectation.nodes = request.facts.number("nodes");
    if (manifest) expectation.recorded = manifest->geometry;
    expectation.target = target_of(request.engine);
    return expectation;
}

void read_dispatch(const AdmissionRequest& request, AdmissionCase& admission, std::vector<Finding>& findings,
                   std::optional<std::string>& table_sha256) {
    std::optional<std::string> path = request.table_path;
    if (!path && admission.manifest && admission.manifest->dispatch_table_sha256) {
        const std::string beside = dispatch_table_path(request.layout_path);
        if (std::filesystem::exists(beside)) path = beside;
    }
    if (path) {
        DispatchFile file = read_dispatch_table(*path);
        table_sha256 = file.sha256;
        admission.table = std::move(file.table);
        if (admission.manifest && admission.manifest->dispatch_table_sha256 &&
            *admission.manifest->dispatch_table_sha256 != *table_sha256) {
            findings.push_back({Severity::error, "TABLE_DIFFERS", *path,
                                "is not the table that the manifest names by its SHA-256", "copy both files again"});
        }
    }
    const auto name = request.facts.text("dispatch");
    if (!name && !admission.table) return;
    admission.dispatch = &find_dispatch_model(name.value_or("table"));
    DispatchContext& context = admission.dispatch_context.emplace();
    context.nodes = request.facts.number("nodes");
    if (const auto tensor_parallel = request.facts.number("tensor-parallel")) {
        context.tensor_parallel = std::max(1, *tensor_parallel);
    }
    if (admission.table) context.table = &*admission.table;
    if (admission.table || admission.dispatch->table == nullptr || !admission.layout) return;
    try {
        admission.table = dispatch_table(*admission.dispatch, *admission.layout, context);
    } catch (const Error& error) {
        findings.push_back({Severity::error, "DISPATCH_UNKNOWN", error.where(), error.message(), error.hint()});
        admission.dispatch_context.reset();
    }
}

Attestation attestation_of(const AdmissionRequest& request, const AdmissionCase& admission, const std::string& sha256,
                           std::optional<std::string> table_sha256) {
    Attestation attestation;
    const Layout& layout = *admission.layout;
    attestation.layout_name = std::filesystem::path(request.layout_path).filename().string();
    attestation.layout_sha256 = sha256;
    attestation.map_hash = map_hash(layout);
    attestation.table_sha256 = std::move(table_sha256);
    attestation.geometry = layout.geometry();
    attestation.engine = request.engine;
    attestation.dispatch = request.facts.text("dispatch");
    for (int rank = 0; rank < layout.geometry().ranks; ++rank) {
        const auto slots = layout.row(0).subspan(static_cast<std::size_t>(rank * layout.geometry().slots_per_rank),
                                                 static_cast<std::size_t>(layout.geometry().slots_per_rank));
        auto& row = attestation.first_row.emplace_back();
        for (const ExpertId expert : slots) row.push_back(expert.value);
    }
    for (const auto& [name, fact] : request.facts.all()) {
        if (name == "dispatch" || name == "layout-path") continue;  // has a field of its own; a path of one machine
        attestation.facts.emplace_back(name, fact.value);
    }
    return attestation;
}

}  // namespace

AdmissionReport admit(const AdmissionRequest& request) {
    AdmissionReport report;
    AdmissionCase admission{request, find_engine_profile(request.engine), {}, {}, nullptr, {}, {}, {}};
    const auto file = MappedFile::open(request.layout_path);
    const std::string sha256 = sha256_hex(file->bytes());
    admission.manifest = manifest_of(request.layout_path, sha256, report.findings);

    std::optional<int> ranks = request.facts.number("ranks");
    if (!ranks && admission.manifest) ranks = admission.manifest->geometry.ranks;
    if (ranks && *ranks > 0) {
        RawLayout raw;
        try {
            raw = decode_raw_layout(file->text(), request.layout_path);
        } catch (const Error& error) {
            throw error.inside(request.layout_path);
        }
        LayoutReport checked = check_layout(raw, expectation_of(request, admission.manifest, *ranks));
        const bool legal = !any_at_least(checked.findings, Severity::error);
        std::move(checked.findings.begin(), checked.findings.end(), std::back_inserter(report.findings));
        if (legal) admission.layout = decode_layout(file->text(), *ranks, checked.geometry->experts);
    }
    if (admission.layout && admission.manifest && admission.manifest->map_hash != map_hash(*admission.layout)) {
        report.findings.push_back({Severity::error, "MANIFEST_UNUSABLE", "",
                                   "the manifest names another map by its hash", "copy both files again"});
    }
    if (request.current_path && ranks) {
        std::optional<int> experts = request.facts.number("experts");
        if (!experts && admission.layout) experts = admission.layout->geometry().experts;
        admission.current = read_layout(*request.current_path, *ranks, experts).layout;
    }
    std::optional<std::string> table_sha256;
    read_dispatch(request, admission, report.findings, table_sha256);
    for (const AdmissionRule& rule : admission_rules()) rule.run(admission, report.findings);
    for (const std::string& note : request.facts.notes()) {
        report.findings.push_back({Severity::info, "NOT_READ", "", note, ""});
    }
    std::stable_sort(report.findings.begin(), report.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    if (admission.layout && !any_at_least(report.findings, Severity::error)) {
        report.attestation = attestation_of(request, admission, sha256, std::move(table_sha256));
    }
    return report;
}

}  // namespace eplb
