// What only several files together can show.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "check/counts.hpp"
#include "check/counts/checks.hpp"
#include "check/files_differ.hpp"
#include "check/rank_set.hpp"

namespace eplb {
namespace {

using check::Findings;

std::string shape_text(const CountReport& report) {
    return fmt::format("[{} record slots, {} layers, {} experts]", report.record_slots, report.layers, report.experts);
}

void check_geometry_agrees(std::span<const CountReport> reports, Findings& findings) {
    const CountReport* first = nullptr;
    for (const CountReport& report : reports) {
        if (report.layers == 0) continue;  // not even a shape
        if (!first) first = &report;
        if (report.layers == first->layers && report.experts == first->experts) continue;
        findings.push_back({Severity::error, "FILES_DISAGREE", fmt::format("{} and {}", first->path, report.path),
                            fmt::format("{} and {}", shape_text(*first), shape_text(report)),
                            "give files of one model only"});
        return;
    }
}

bool same_content(const CountStatistics& a, const CountStatistics& b) {
    return a.layers == b.layers && a.experts == b.experts && a.total == b.total && a.slot_hashes == b.slot_hashes;
}

// Identical content twice is refused, in whatever container it comes.
void check_content_differs(std::span<const CountReport> reports, Findings& findings) {
    for (std::size_t later = 1; later < reports.size(); ++later) {
        for (std::size_t earlier = 0; earlier < later; ++earlier) {
            const CountReport &a = reports[earlier], &b = reports[later];
            if (!a.statistics || !b.statistics || !same_content(*a.statistics, *b.statistics)) continue;
            if (a.statistics->total == 0) continue;  // two idle ranks are EMPTY_RANK
            findings.push_back({Severity::error, "IDENTICAL_FILES", fmt::format("{} and {}", a.path, b.path),
                                "the same counts twice", "give each window once"});
            break;
        }
    }
}

void check_reduction_stated(std::span<const CountReport> reports, Findings& findings) {
    int unknown = 0;
    for (const CountReport& report : reports) unknown += report.reduction == Reduction::unknown;
    if (unknown == 0) return;
    findings.push_back(
        {Severity::error, "REDUCTION_NOT_STATED", "",
         fmt::format("{} of {} files do not say whether their counts are summed over the ranks", unknown,
                     reports.size()),
         "say --reduction reduced (windows of one deployment) or per-rank (one window, a file per rank)"});
}

// Windows and one rank's share of a window cannot be put together in any way.
void check_one_reduction(std::span<const CountReport> reports, Findings& findings) {
    const auto is = [&](Reduction reduction) {
        return std::find_if(reports.begin(), reports.end(),
                            [&](const CountReport& report) { return report.reduction == reduction; });
    };
    const auto share = is(Reduction::per_rank), window = is(Reduction::reduced);
    if (share == reports.end() || window == reports.end()) return;
    findings.push_back({Severity::error, "REDUCTION_CONFLICT", fmt::format("{} and {}", share->path, window->path),
                        "the counts of one rank beside counts that are summed over the ranks",
                        "give whole windows only, or the ranks of one window only"});
}

// Record slots of several windows add up. The ranks of one window are looked at in their sum.
void check_sample_size(std::span<const CountReport> reports, Findings& findings) {
    int filled = 0;
    std::set<std::uint64_t> different;
    for (const CountReport& report : reports) {
        if (!report.statistics || report.reduction == Reduction::per_rank) return;
        filled += static_cast<int>(report.statistics->filled.size());
        for (const int slot : report.statistics->filled) {
            different.insert(report.statistics->slot_hashes[static_cast<std::size_t>(slot)]);
        }
    }
    const int distinct = std::min(filled, static_cast<int>(different.size()));
    for (Finding& finding : check::small_sample(filled, distinct)) findings.push_back(std::move(finding));
}

void check_sum_of_totals(std::span<const CountReport> reports, const CountOptions& options, Findings& findings) {
    if (!options.expect_total) return;
    std::int64_t total = 0;
    for (const CountReport& report : reports) {
        if (!report.statistics || report.reduction == Reduction::per_rank) return;  // the sum has it, or no sum at all
        if (__builtin_add_overflow(total, report.statistics->total, &total)) {
            findings.push_back({Severity::error, "SUM_TOO_LARGE", "", "the sum of the files is above 2^63 - 1",
                                "these are no counts of tokens; look at the type and the byte order of the files"});
            return;
        }
    }
    for (Finding& finding : check::unexpected_total(total, *options.expect_total)) {
        findings.push_back(std::move(finding));
    }
}

constexpr std::string_view other_window = "the files are not the windows, or the ranks of a window, of one model";
constexpr std::array<CountCode, 14> together_codes{{
    {"FILES_DISAGREE", Severity::error, other_window},
    {"IDENTICAL_FILES", Severity::error, "the same counts would be summed or judged twice"},
    {"FILES_DIFFER", Severity::warning},
    {"REDUCTION_NOT_STATED", Severity::error, "whether to sum the files depends on it: say --reduction"},
    {"REDUCTION_CONFLICT", Severity::error, other_window},
    {"RANK_TWICE", Severity::error, other_window},
    {"RANKS_INCOMPLETE", Severity::error, "a sum without some ranks is not the load of the model"},
    {"RANKS_NOT_STATED", Severity::info},
    {"FOREIGN_RANK", Severity::error, other_window},
    {"EMPTY_RANK", Severity::warning},
    {"PASSES_LEFT_OUT", Severity::warning},
    {"SMALL_SAMPLE", Severity::info},
    {"UNEXPECTED_TOTAL", Severity::warning},
    {"SUM_TOO_LARGE", Severity::error, "values that are no counts cannot be fitted"},
}};

}  // namespace

std::vector<Finding> check_counts_together(std::span<const CountReport> reports, const CountOptions& options) {
    Findings findings;
    check::check_rank_set(reports, options, findings);
    if (reports.size() < 2) return findings;
    check_geometry_agrees(reports, findings);
    check_content_differs(reports, findings);
    check_reduction_stated(reports, findings);
    check_one_reduction(reports, findings);
    check_sample_size(reports, findings);
    check_sum_of_totals(reports, options, findings);
    check::check_files_differ(reports, findings);
    accept_findings(findings, options.accepted);
    sort_by_severity(findings);
    return findings;
}

std::span<const CountCode> across_files_codes() {
    return together_codes;
}

}  // namespace eplb
