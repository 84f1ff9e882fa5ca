#include "evaluation/count_input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/equal_slots.hpp"
#include "core/error.hpp"
#include "core/record_split.hpp"
#include "counts_io/libtorch_reader.hpp"

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

std::int64_t add(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        throw Error(ErrorCode::input, "", "the sum of the counts of all ranks is above 2^63 - 1");
    }
    return sum;
}

// The ranks of one window, summed value by value.
Tensor sum_over_files(const std::vector<CountFile>& files) {
    std::vector<Counts> ranks;
    for (const CountFile& file : files) {
        ranks.emplace_back(std::vector{file.tensor});
    }
    const int slots = ranks.front().record_slots(), layers = ranks.front().layers(), experts = ranks.front().experts();
    const auto width = static_cast<std::size_t>(experts);
    std::vector<std::int64_t> row(width), values;
    values.reserve(static_cast<std::size_t>(slots) * static_cast<std::size_t>(layers) * width);
    for (int slot = 0; slot < slots; ++slot) {
        for (int layer = 0; layer < layers; ++layer) {
            const std::size_t first = values.size();
            values.resize(first + width);
            for (const Counts& rank : ranks) {
                rank.read_row(slot, layer, row);
                for (std::size_t expert = 0; expert < width; ++expert) {
                    values[first + expert] = add(values[first + expert], row[expert]);
                }
            }
        }
    }
    return make_count_tensor(std::move(values), slots, layers, experts);
}

}  // namespace

CountInput load_counts(const CountOptions& options) {
    if (options.files.empty()) throw Error(ErrorCode::usage, "", "no count file was given");
    CountInput input;
    for (const std::string& path : options.files) {
        input.files.push_back(read_count_file(path, options));
        const CountFile& file = input.files.back();
        input.reports.push_back(check_counts(path, file.tensor, file.reduction, options, file.window));
        refuse_errors(input.reports.back().findings, path);
        if (!options.cross_check_libtorch) continue;
        if (auto finding = cross_check_with_libtorch(file, options)) {
            input.reports.back().findings.push_back(*finding);
            refuse_errors(input.reports.back().findings, path);
        }
    }
    input.findings = check_counts_together(input.reports, options);
    refuse_errors(input.findings, "");

    const bool per_rank = std::all_of(input.reports.begin(), input.reports.end(), [](const CountReport& report) {
        return report.reduction == Reduction::per_rank;
    });
    input.summed_over_files = per_rank && input.files.size() > 1;
    if (input.summed_over_files) {
        input.counts = Counts({sum_over_files(input.files)});
        input.first_slot.assign(input.files.size(), 0);
        input.filled = filled_slots(input.counts.slot_totals());
        input.first_equal = first_equal(input.counts, input.filled);
        return input;
    }
    std::vector<Tensor> tensors;
    int slots = 0;
    for (std::size_t index = 0; index < input.files.size(); ++index) {
        tensors.push_back(input.files[index].tensor);
        input.first_slot.push_back(slots);
        for (const int slot : input.reports[index].statistics->filled) input.filled.push_back(slots + slot);
        slots += input.reports[index].record_slots;
    }
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
