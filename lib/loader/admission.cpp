#include "loader/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/mapped_file.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/layout_file.hpp"
#include "loader/legal_layout.hpp"

namespace eplb {
namespace {

// Engines that the layout checks know by another name have the same demands on the map.
const LayoutTarget* target_of(std::string_view engine) {
    for (const LayoutTarget& target : layout_targets()) {
        if (target.name == engine) return &target;
    }
    return nullptr;
}

LayoutDemands demands_of(const AdmissionRequest& request) {
    LayoutDemands demands;
    demands.ranks = request.facts.number("ranks");
    demands.experts = request.facts.number("experts");
    demands.nodes = request.facts.number("nodes");
    demands.target = target_of(request.engine);
    demands.allow_no_manifest = request.allow_no_manifest;
    return demands;
}

void read_current(const std::string& path, AdmissionCase& admission) {
    std::optional<int> ranks = admission.facts().number("ranks"), experts = admission.facts().number("experts");
    if (admission.layout) {
        ranks = admission.layout->geometry().ranks;
        experts = admission.layout->geometry().experts;
    }
    if (path == "trivial") {
        if (admission.layout) admission.current = trivial_layout(admission.layout->geometry());
        return;
    }
    if (ranks) admission.current = read_layout(path, *ranks, experts).layout;
}

// The table to load: given, or named by the manifest and beside the layout.
void read_table(AdmissionCase& admission, std::vector<Finding>& findings) {
    const AdmissionRequest& request = admission.request;
    std::optional<std::string> named;
    if (admission.manifest) named = admission.manifest->dispatch_table_sha256;
    std::optional<std::string> path = request.table_path;
    if (!path && named) {
        const std::string beside = dispatch_table_path(request.layout_path);
        if (std::filesystem::exists(beside)) path = beside;
    }
    if (!path) return;
    DispatchFile file = read_dispatch_table(*path);
    if (named && *named != file.sha256) {
        findings.push_back({Severity::error, "TABLE_DIFFERS", *path,
                            "is not the table that the manifest names by its SHA-256", "copy both files again"});
    }
    try {
        find_dispatch_table_manifest(file, admission.layout_sha256);
    } catch (const Error& error) {
        findings.push_back({Severity::error, "TABLE_DIFFERS", error.where(), error.message(), error.hint()});
    }
    admission.table = std::move(file.table);
    admission.table_sha256 = std::move(file.sha256);
}

// The rule that the server dispatches by, and its table where nobody gave one.
void find_dispatch(AdmissionCase& admission, std::vector<Finding>& findings) {
    const AdmissionRequest& request = admission.request;
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

Attestation attestation_of(const AdmissionCase& admission) {
    Attestation attestation;
    const AdmissionRequest& request = admission.request;
    const Layout& layout = *admission.layout;
    attestation.layout_name = std::filesystem::path(request.layout_path).filename().string();
    attestation.layout_sha256 = admission.layout_sha256;
    attestation.map_hash = map_hash(layout);
    attestation.table_sha256 = admission.table_sha256;
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

void hold_to(const std::string& path, const Attestation& now, std::vector<Finding>& findings) {
    const auto file = MappedFile::open(path);
    Attestation attested;
    try {
        attested = decode_attestation(file->text());
    } catch (...) {
        rethrow_inside(path);
    }
    for (std::string& line : differences(attested, now)) {
        findings.push_back(
            {Severity::error, "ATTESTATION_DIFFERS", path, std::move(line), "something was changed since"});
    }
}

void sort_by_severity(std::vector<Finding>& findings) {
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
}

}  // namespace

std::string line_of(const Finding& finding) {
    return printable(fmt::format("{}: {}{}{}{}", finding.code, finding.where, finding.where.empty() ? "" : ": ",
                                 finding.message, finding.hint.empty() ? "" : fmt::format(" ({})", finding.hint)));
}

AdmissionReport admit(const AdmissionRequest& request) {
    AdmissionReport report;
    std::vector<Finding>& findings = report.findings;
    JudgedLayout judged = judge_layout(request.layout_path, demands_of(request));
    findings = std::move(judged.findings);
    AdmissionCase admission{request, find_engine_profile(request.engine)};
    admission.layout_sha256 = std::move(judged.sha256);
    admission.manifest = std::move(judged.manifest);
    admission.layout = std::move(judged.layout);
    if (request.current_path) read_current(*request.current_path, admission);
    read_table(admission, findings);
    find_dispatch(admission, findings);

    for (const AdmissionRule& rule : admission_rules()) rule.run(admission, findings);
    for (const std::string& note : request.facts.notes()) {
        findings.push_back({Severity::info, "NOT_READ", "", note, ""});
    }
    if (admission.layout && !any_at_least(findings, Severity::error)) {
        Attestation attestation = attestation_of(admission);
        if (request.expect_path) hold_to(*request.expect_path, attestation, findings);
        if (!any_at_least(findings, Severity::error)) report.attestation = std::move(attestation);
    }
    sort_by_severity(findings);
    report.table = std::move(admission.table);
    return report;
}

}  // namespace eplb
