#include "loader/legal_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "dispatch/table_faults.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"

namespace eplb {
namespace {

// The error findings in one line; empty when there is none.
std::string reasons_of(const std::vector<Finding>& findings) {
    std::string reasons;
    for (const Finding& finding : findings) {
        if (finding.severity != Severity::error) continue;
        reasons += fmt::format("{}{}{}{}", reasons.empty() ? "" : "; ", finding.where,
                               finding.where.empty() ? "" : ": ", finding.message);
    }
    return reasons;
}

Finding no_manifest(bool allowed) {
    return {allowed ? Severity::warning : Severity::error, "NO_MANIFEST", "",
            "no manifest beside the layout: what it was made for is not known",
            allowed ? "" : "copy the .manifest.json as well, or allow a layout without one (--allow-no-manifest)"};
}

}  // namespace

JudgedLayout judge_layout(const std::string& path, const LayoutDemands& demands) {
    const auto file = MappedFile::open(path);
    JudgedLayout judged;
    judged.sha256 = sha256_hex(file->bytes());
    try {
        judged.manifest = find_manifest(path, judged.sha256);
        if (!judged.manifest) judged.findings.push_back(no_manifest(demands.allow_no_manifest));
    } catch (const Error& error) {
        judged.findings.push_back({Severity::error, "MANIFEST_UNUSABLE", error.where(), error.message(), error.hint()});
    }
    LayoutExpectation expectation;
    expectation.experts = demands.experts;
    expectation.nodes = demands.nodes;
    expectation.target = demands.target;
    std::optional<int> ranks = demands.ranks;
    if (judged.manifest) {
        expectation.recorded = judged.manifest->geometry;
        if (!expectation.experts) expectation.experts = judged.manifest->geometry.experts;
        if (!ranks) ranks = judged.manifest->geometry.ranks;
    }
    if (!ranks || *ranks < 1) return judged;
    expectation.ranks = *ranks;
    try {
        LayoutReport report = check_layout(decode_raw_layout(file->text(), path), expectation);
        const bool legal = !any_at_least(report.findings, Severity::error);
        std::move(report.findings.begin(), report.findings.end(), std::back_inserter(judged.findings));
        if (legal) judged.layout = decode_layout(file->text(), *ranks, report.geometry->experts);
    } catch (...) {
        rethrow_inside(path);
    }
    if (judged.layout && judged.manifest && judged.manifest->map_hash != map_hash(*judged.layout)) {
        judged.findings.push_back({Severity::error, "MANIFEST_UNUSABLE", "",
                                   "the manifest names another map by its hash", "copy both files again"});
    }
    return judged;
}

LegalLayout read_legal_layout(const std::string& path, const LayoutDemands& demands) {
    JudgedLayout judged = judge_layout(path, demands);
    const std::string reasons = reasons_of(judged.findings);
    if (!reasons.empty()) {
        const auto worst = std::find_if(judged.findings.begin(), judged.findings.end(),
                                        [](const Finding& finding) { return finding.severity == Severity::error; });
        throw Error(ErrorCode::input, path, reasons, worst->hint);
    }
    if (!judged.layout) {
        throw Error(ErrorCode::input, path, "the number of ranks is not known: there is no manifest that tells",
                    "give it");
    }
    return {{path, std::move(judged.sha256), std::move(*judged.layout)}, std::move(judged.manifest)};
}

void require_legal(const Layout& layout) {
    const std::string reasons = reasons_of(check_layout(layout));
    if (!reasons.empty()) throw Error(ErrorCode::input, "layout", reasons, "fit it again");
}

void require_table(const Layout& layout, const DispatchTable& table) {
    const TableFaults faults = table_faults(table, layout);
    if (!faults.any()) return;
    throw Error(ErrorCode::input,
                faults.where.empty() ? "dispatch table" : fmt::format("dispatch table, {}", faults.where), faults.what,
                "the table was made for another layout: eplb-load table makes one for this");
}

}  // namespace eplb
