#include "evaluation/count_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/equal_slots.hpp"
#include "core/error.hpp"
#include "core/record_split.hpp"
#include "evaluation/count_set.hpp"

namespace eplb {
namespace {

void refuse_errors(const std::vector<Finding>& findings, const std::string& path) {
    const auto is_error = [](const Finding& finding) { return finding.severity == Severity::error; };
    const auto first = std::find_if(findings.begin(), findings.end(), is_error);
    if (first == findings.end()) return;
    std::string where = path;
    if (!first->where.empty()) where += (where.empty() ? "" : ": ") + first->where;
    std::string hint = first->hint;
    if (const auto errors = std::count_if(findings.begin(), findings.end(), is_error); errors > 1) {
        hint += fmt::format("{}and {} more errors, which eplb-validate lists", hint.empty() ? "" : "; ", errors - 1);
    }
    throw Error(ErrorCode::input, where, fmt::format("{}: {}", first->code, first->message), hint);
}

// Where the record slots of a file lie in the counts: one after the other, or in the sum of the ranks.
std::vector<int> slots_from(int first, int count) {
    std::vector<int> slots(static_cast<std::size_t>(count));
    std::iota(slots.begin(), slots.end(), first);
    return slots;
}

std::vector<int> slots_in_sum(const std::vector<int>& record_slots, int count) {
    std::vector<int> slots(static_cast<std::size_t>(count), -1);
    for (std::size_t pass = 0; pass < record_slots.size(); ++pass) {
        slots[static_cast<std::size_t>(record_slots[pass])] = static_cast<int>(pass);
    }
    return slots;
}

}  // namespace

CountInput load_counts(const CountOptions& options, int threads) {
    CheckedSet set = check_count_files(options, threads);
    CountInput input;
    for (CheckedFile& file : set.files) {
        if (file.undecodable) throw *file.undecodable;
        refuse_errors(file.findings, file.path);
        input.files.push_back(std::move(*file.file));
        input.reports.push_back(std::move(*file.report));
        input.reports.back().findings = std::move(file.findings);
    }
    refuse_errors(set.findings, "");
    input.findings = std::move(set.findings);

    if (set.sum) {
        input.summed_over_files = input.files.size() > 1;
        input.counts = Counts({set.sum->counts});
        input.filled = set.sum->report.statistics->filled;
        input.first_equal = first_equal(input.counts, input.filled);
        input.layers = expected_layers(options, input.counts.layers(), set.sum->report.statistics->zero_layers);
        input.left_out = set.sum->report.left_out;
        for (std::size_t index = 0; index < input.files.size(); ++index) {
            input.slot_in_counts.push_back(
                slots_in_sum(set.sum->passes.record_slots[index], input.reports[index].record_slots));
        }
        return input;
    }
    std::vector<Tensor> tensors;
    std::vector<int> zero_layers = input.reports.front().statistics->zero_layers;  // in all files
    int slots = 0;
    for (std::size_t index = 0; index < input.files.size(); ++index) {
        const CountReport& report = input.reports[index];
        tensors.push_back(input.files[index].tensor);
        input.slot_in_counts.push_back(slots_from(slots, report.record_slots));
        for (const int slot : report.statistics->filled) input.filled.push_back(slots + slot);
        const std::vector<int>& zero = report.statistics->zero_layers;
        std::erase_if(zero_layers, [&](int layer) { return !std::binary_search(zero.begin(), zero.end(), layer); });
        for (const int slot : report.left_out.slots) input.left_out.slots.push_back(slots + slot);
        input.left_out.layers = report.left_out.layers;
        slots += report.record_slots;
    }
    input.layers = expected_layers(options, input.reports.front().layers, zero_layers);
    input.counts = Counts(std::move(tensors));
    input.first_equal = first_equal(input.counts, input.filled);
    return input;
}

RecordSplit split_counts(const CountInput& input, Holdout holdout) {
    if (holdout == Holdout::last) {
        const char* const hint = "use interleave or halves";
        for (const CountFile& file : input.files) {
            if (!file.window || file.window->sequence.empty()) {
                throw Error(ErrorCode::usage, "--holdout last",
                            fmt::format("nothing tells the order of the record slots of {}", file.path), hint);
            }
        }
        if (input.files.size() > 1 && !input.summed_over_files) {
            throw Error(ErrorCode::usage, "--holdout last", "several windows have no common order", hint);
        }
    }
    return split_record_slots(input.filled, holdout, input.first_equal);
}

}  // namespace eplb
