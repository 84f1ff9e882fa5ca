#include "evaluation/count_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "check/count_code.hpp"
#include "check/rank_set.hpp"
#include "cli/app.hpp"
#include "core/parallel_loop.hpp"
#include "counts_io/expand_inputs.hpp"
#include "counts_io/libtorch_reader.hpp"
#include "files/digest.hpp"

namespace eplb {
namespace {

void add(std::vector<Finding>& findings, std::vector<Finding> more) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
}

// The counts without the rows that the flags leave out; a share of a window is left whole, since passes are left out of
// the sum.
Tensor selected(const CountFile& file, const CountOptions& options) {
    const Reduction reduction = file.reduction != Reduction::unknown ? file.reduction : options.reduction;
    if (reduction == Reduction::per_rank || file.tensor.shape.size() != 3) return file.tensor;
    const bool alone = options.files.size() == 1;
    return without(file.tensor, left_out(options.selection, file.tensor, file.path, alone));
}

CheckedFile check_file(const std::string& path, const CountOptions& options) {
    CheckedFile checked;
    checked.path = path;
    std::shared_ptr<const MappedFile> bytes;
    try {
        bytes = MappedFile::open(path);
        checked.bytes = static_cast<std::int64_t>(bytes->bytes().size());
        checked.file = decode_count_file(bytes, options);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::input) throw;
        if (bytes) checked.sha256 = sha256_hex(bytes->bytes());
        checked.undecodable = error;
        checked.findings.push_back(finding_of(error, path));
        return checked;
    }
    CountFile& file = *checked.file;
    checked.sha256 = file.sha256;
    const Tensor whole = file.tensor;
    file.tensor = selected(file, options);
    cli::on_input(path,
                  [&] { checked.report = check_counts(path, file.tensor, file.reduction, options, file.window); });
    const bool cross_check = options.cross_check_libtorch && checked.report->ok();
    checked.findings = std::move(checked.report->findings);
    add(checked.findings, file.findings);
    if (cross_check) {
        const Tensor part = std::exchange(file.tensor, whole);  // libtorch reads all of it
        if (auto finding = cross_check_with_libtorch(file, options)) checked.findings.push_back(*finding);
        file.tensor = part;
    }
    sort_by_severity(checked.findings);
    return checked;
}

// Are the files the shares of one window, and all of them, as far as anything tells? A lone share is one only where its
// window is known to have one rank.
bool complete_rank_set(const CheckedSet& set, const CountOptions& options) {
    const auto sound_share = [](const CheckedFile& file) {
        return file.report && file.report->reduction == Reduction::per_rank && file.report->statistics &&
               !any_at_least(file.findings, Severity::error);
    };
    if (!std::all_of(set.files.begin(), set.files.end(), sound_share)) return false;
    if (any_at_least(set.findings, Severity::error)) return false;
    const auto& window = set.files.front().report->window;
    return set.files.size() > 1 || options.recorded_ranks == 1 || (window && window->members.size() == 1);
}

// What is known of the passes that were summed.
std::optional<WindowFacts> facts_of_sum(const CheckedSet& set, const CommonPasses& passes) {
    const auto& first = set.files.front().report->window;
    if (!first) return std::nullopt;
    WindowFacts facts = *first;
    facts.rank.reset();
    facts.sequence = passes.sequence;
    return facts;
}

// Sums a complete set of ranks and checks the sum; what is found goes to set.findings.
void sum_and_check(CheckedSet& set, const CountOptions& options) {
    std::vector<CountReport> reports;
    std::vector<RankShare> shares;
    for (const CheckedFile& file : set.files) {
        const auto& window = file.report->window;
        shares.push_back({&file.file->tensor, window ? &*window : nullptr});
        reports.push_back(*file.report);
    }
    CommonPasses passes = common_passes(shares);
    std::vector<Finding> found = check::passes_findings(reports, passes);
    const bool possible = !any_at_least(found, Severity::error);
    add(set.findings, std::move(found));
    if (!possible) return;
    SummedRanks sum;
    try {
        sum.counts = sum_of_ranks(shares, passes);
        sum.counts = without(sum.counts, left_out(options.selection, sum.counts, std::nullopt, true));
    } catch (const Error& error) {
        set.findings.push_back({Severity::error, "SUM_TOO_LARGE", error.where(), error.message(),
                                "these are no counts of tokens; look at the type and byte order of the files"});
        return;
    }
    sum.report = check_summed_counts(sum.counts, options, facts_of_sum(set, passes));
    for (Finding& finding : sum.report.findings) {
        finding.where =
            fmt::format("sum of {} files{}{}", set.files.size(), finding.where.empty() ? "" : ", ", finding.where);
        set.findings.push_back(std::move(finding));
    }
    sum.report.findings.clear();
    sum.passes = std::move(passes);
    set.sum = std::move(sum);
}

}  // namespace

CheckedSet check_count_files(const CountOptions& asked, int threads) {
    if (asked.files.empty()) throw Error(ErrorCode::usage, "", "no count file was given");
    require_acceptable(asked.accepted, undecodable_codes());
    CountOptions options = asked;
    options.files = expand_inputs(asked.files);  // a folder is many files: none of them is alone
    const std::vector<std::string>& paths = options.files;
    require_consistent(options.selection, paths);
    CheckedSet set;
    set.files.resize(paths.size());
    for_each_index(static_cast<int>(paths.size()), threads, [&](int index) {
        const auto file = static_cast<std::size_t>(index);
        set.files[file] = check_file(paths[file], options);
    });
    std::vector<CountReport> decoded;
    for (const CheckedFile& file : set.files) {
        if (file.report) decoded.push_back(*file.report);
    }
    set.findings = check_counts_together(decoded, options);
    if (complete_rank_set(set, options)) sum_and_check(set, options);
    sort_by_severity(set.findings);
    return set;
}

}  // namespace eplb
