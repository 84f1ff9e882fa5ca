#include "run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "check/dispatch_table.hpp"
#include "check/layout.hpp"
#include "cli/app.hpp"
#include "evaluation/count_set.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"
#include "report.hpp"

namespace eplb {
namespace {

// Null, with a finding, when the file cannot be opened.
std::shared_ptr<const MappedFile> open_file(FileReport& report) {
    try {
        const auto file = MappedFile::open(report.path);
        report.bytes = static_cast<std::int64_t>(file->bytes().size());
        return file;
    } catch (const Error& error) {
        report.undecodable = error;
        report.findings.push_back(finding_of(error, report.path));
        return nullptr;
    }
}

void add(std::vector<Finding>& findings, std::vector<Finding> more) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
}

FileReport report_of(CheckedFile&& checked) {
    FileReport report;
    report.path = std::move(checked.path);
    report.sha256 = std::move(checked.sha256);
    report.bytes = checked.bytes;
    report.undecodable = std::move(checked.undecodable);
    report.findings = std::move(checked.findings);
    report.counts = std::move(checked.report);
    if (checked.file) {
        report.format = std::move(checked.file->format);
        report.saved_on = std::move(checked.file->saved_on);
        report.dtype = checked.file->tensor.dtype;
        report.shape = checked.file->tensor.shape;
    }
    return report;
}

Report validate_counts(const ValidateOptions& options) {
    CheckedSet set = check_count_files(options.counts, options.common.thread_count());
    Report report;
    for (CheckedFile& file : set.files) report.files.push_back(report_of(std::move(file)));
    report.findings = std::move(set.findings);
    if (set.sum) report.sum = std::move(set.sum->report);
    return report;
}

// The manifest beside the layout, if it can be used; else a finding says why not.
std::optional<Manifest> manifest_of(const FileReport& report, std::vector<Finding>& findings) {
    try {
        std::optional<Manifest> manifest = find_manifest(report.path, *report.sha256);
        if (!manifest && report.path != "-") {
            findings.push_back({Severity::info, "NO_MANIFEST", "",
                                fmt::format("there is no {}", manifest_path(report.path)),
                                "without it nobody can tell which counts and EP size the layout was made for"});
        }
        return manifest;
    } catch (const Error& error) {
        const bool mismatch = error.finding_code() == "MANIFEST_MISMATCH";
        const std::string hint = mismatch ? error.hint()
                                          : fmt::format("{}{}fit again, or remove the manifest and state --ranks",
                                                        error.hint(), error.hint().empty() ? "" : "; ");
        findings.push_back({Severity::error, mismatch ? "MANIFEST_MISMATCH" : "MANIFEST_UNREADABLE", error.where(),
                            error.message(), hint});
        return std::nullopt;
    }
}

LayoutExpectation expectation_of(const ValidateOptions& options, const std::optional<Manifest>& manifest) {
    LayoutExpectation expectation;
    if (manifest) {
        expectation.recorded = manifest->geometry;
        expectation.ranks = manifest->geometry.ranks;
        expectation.experts = manifest->geometry.experts;
    } else if (!options.counts.ranks) {
        throw Error(ErrorCode::usage, "--ranks",
                    "the number of ranks is not known: no manifest beside the layout tells", "give --ranks R");
    }
    if (options.counts.ranks) expectation.ranks = *options.counts.ranks;
    if (options.counts.experts) expectation.experts = options.counts.experts;
    expectation.layers = options.counts.layers;
    expectation.nodes = options.nodes;
    expectation.redundant_total = options.redundant_total;
    expectation.target = options.target;
    return expectation;
}

// What only a layout without errors can be asked: does it survive being written, and is it the one of the manifest?
void check_round_trip(std::string_view text, const LayoutExpectation& expectation,
                      const std::optional<Manifest>& manifest, FileReport& report) {
    const Layout layout = decode_layout(text, expectation.ranks, report.geometry->experts);
    report.map_hash = map_hash(layout);
    if (decode_layout(encode_layout(layout), expectation.ranks, report.geometry->experts) != layout) {
        report.findings.push_back({Severity::error, "ROUND_TRIP_DIFFERS", "",
                                   "the layout written and read again is another one", "please report this"});
    }
    if (manifest && manifest->map_hash != *report.map_hash) {
        report.findings.push_back(
            {Severity::error, "MANIFEST_MISMATCH", "",
             fmt::format("the manifest states the map {}, this one is {}", manifest->map_hash, *report.map_hash),
             "the manifest was edited or belongs to another layout"});
    }
}

// The table against the layout, and the hashes that tie the two.
FileReport validate_dispatch_table(const std::string& path, const FileReport& layout_report, const Layout& layout,
                                   const std::optional<Manifest>& manifest) {
    FileReport report;
    report.path = path;
    try {
        const DispatchFile file = read_dispatch_table(path);
        report.sha256 = file.sha256;
        report.table = {file.table.ranks, file.table.layers, file.table.experts};
        report.findings = check_dispatch_table(file.table, layout);
        const bool fitted_with_layout = path == dispatch_table_path(layout_report.path);
        if (fitted_with_layout && manifest && manifest->dispatch_table_sha256 &&
            *manifest->dispatch_table_sha256 != file.sha256) {
            report.findings.push_back({Severity::error, "TABLE_MISMATCH", "",
                                       fmt::format("the layout's manifest states a table with SHA-256 {}, this is {}",
                                                   *manifest->dispatch_table_sha256, file.sha256),
                                       "the table was changed after the fit"});
        }
        if (!find_dispatch_table_manifest(file, *layout_report.sha256)) {
            report.findings.push_back({Severity::info, "NO_TABLE_MANIFEST", "",
                                       fmt::format("there is no {}", dispatch_table_manifest_path(path)),
                                       "without it nobody can tell which rule and nodes the table was made for"});
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::input) throw;
        if (error.finding_code() == "TABLE_MISMATCH") {
            report.findings.push_back(
                {Severity::error, "TABLE_MISMATCH", error.where(), error.message(), error.hint()});
        } else {
            report.undecodable = error;
            report.findings.push_back(finding_of(error, path));
        }
    }
    sort_by_severity(report.findings);
    return report;
}

Report validate_layout(const ValidateOptions& options) {
    Report report;
    report.layout = true;
    report.files.reserve(2);  // the layout and its table
    FileReport& file_report = report.files.emplace_back();
    file_report.path = *options.layout;
    const auto file = open_file(file_report);
    if (!file) return report;
    file_report.sha256 = sha256_hex(file->bytes());
    try {
        const RawLayout raw = decode_raw_layout(file->text(), file_report.path);
        const std::optional<Manifest> manifest = manifest_of(file_report, file_report.findings);
        if (!manifest && !options.counts.ranks && any_at_least(file_report.findings, Severity::error)) {
            return report;  // the number of ranks stands in a manifest that cannot be used
        }
        const LayoutExpectation expectation = expectation_of(options, manifest);
        LayoutReport checked = check_layout(raw, expectation);
        file_report.geometry = checked.geometry;
        add(file_report.findings, std::move(checked.findings));
        if (!any_at_least(file_report.findings, Severity::error)) {
            check_round_trip(file->text(), expectation, manifest, file_report);
        }
        sort_by_severity(file_report.findings);
        if (options.dispatch_table && file_report.geometry && file_report.map_hash) {
            const Layout layout = decode_layout(file->text(), expectation.ranks, file_report.geometry->experts);
            FileReport table = validate_dispatch_table(*options.dispatch_table, file_report, layout, manifest);
            report.files.push_back(std::move(table));
        } else if (options.dispatch_table) {
            report.findings.push_back({Severity::info, "TABLE_NOT_CHECKED", "",
                                       "the dispatch table was not looked at: the layout has errors", ""});
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::input) throw;
        file_report.undecodable = error.inside(file_report.path);
        file_report.findings.push_back(finding_of(error, file_report.path));
    }
    return report;
}

}  // namespace

int run(const ValidateOptions& options) {
    Report report = options.layout ? validate_layout(options) : validate_counts(options);
    report.strict = options.strict;
    cli::print(options.common.json ? report_json(report) : report_text(report, options.common.verbosity > 0));
    for (const FileReport& file : report.files) {
        if (file.undecodable) throw *file.undecodable;
    }
    return report.exit_code();
}

}  // namespace eplb
