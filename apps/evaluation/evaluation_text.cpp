#include "evaluation/evaluation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "check/wording.hpp"
#include "cli/table.hpp"
#include "core/equal_slots.hpp"
#include "core/printable.hpp"

namespace eplb {
namespace {

std::string finding_line(const Finding& finding, const std::string& file) {
    std::string line = fmt::format("  {} {}: {}", name_of(finding.severity), finding.code, finding.message);
    if (!finding.where.empty()) line += fmt::format(" [{}]", finding.where);
    if (!file.empty()) line += fmt::format(" ({})", file);
    return printable(line) + "\n";
}

std::string findings_text(const std::vector<Finding>& findings, const std::string& file, bool verbose) {
    std::string text;
    for (const Finding& finding : findings) {
        if (verbose || finding.severity >= Severity::warning) text += finding_line(finding, file);
    }
    return text;
}

std::string line_name(const Subject& subject, const PartScore& result) {
    std::string name = fmt::format("{}, {}", printable(subject.name), name_of(result.part));
    if (result.in_sample == true) name += " (fitted on)";
    if (!subject.valid()) name += " (illegal)";
    return name;
}

}  // namespace

std::string base_name(const std::string& path) {
    return printable(std::filesystem::path(path).filename().string());
}

std::string fixed(double value) {
    return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-";
}

std::string counted(std::int64_t number, std::string_view noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string counts_text(const CountInput& input, const RecordSplit& split, Holdout holdout, bool verbose) {
    const std::string files =
        input.files.size() == 1 ? base_name(input.files.front().path) : fmt::format("{} files", input.files.size());
    const int different = distinct(input.first_equal);
    const std::string copies =
        different < static_cast<int>(input.filled.size()) ? fmt::format(", {} distinct", different) : "";
    const std::string left_out =
        input.left_out.slots.empty() ? "" : fmt::format(", {} left out", input.left_out.slots.size());
    std::string text =
        fmt::format("counts    {}{}: {}, {} with counts{}{}; {} x {}\n", files,
                    input.summed_over_files ? ", summed over the ranks" : "",
                    counted(input.counts.record_slots(), "record slot"), input.filled.size(), copies, left_out,
                    counted(input.counts.layers(), "layer"), counted(input.counts.experts(), "expert"));
    text +=
        "          a record slot is an entry of the file's first axis: in SGLang a forward pass, elsewhere a window\n";
    if (split.holdout.empty()) {
        text += holdout == Holdout::none
                    ? "split     none: no record slot is held out\n"
                    : fmt::format("split     one {}record slot with counts: nothing can be held out\n",
                                  copies.empty() ? "" : "distinct ");
    } else {
        text += fmt::format("split     {}: {} to fit on, {} held out to judge on\n", name_of(holdout),
                            counted(static_cast<std::int64_t>(split.fit.size()), "record slot"), split.holdout.size());
    }
    for (std::size_t index = 0; index < input.files.size(); ++index) {
        text += findings_text(input.reports[index].findings,
                              input.files.size() == 1 ? "" : base_name(input.files[index].path), verbose);
    }
    return text + findings_text(input.findings, "", verbose);
}

std::string scores_text(std::span<const Subject> subjects, const std::vector<std::vector<PartScore>>& scores) {
    // A table is scored for its own layout only, so not every subject knows every dispatch; one knows them all, in
    // order.
    const auto all = std::max_element(scores.begin(), scores.end(),
                                      [](const auto& a, const auto& b) { return a.size() < b.size(); });
    std::vector<std::string> models;
    for (const PartScore& result : *all) {
        if (std::find(models.begin(), models.end(), result.dispatch) == models.end()) models.push_back(result.dispatch);
    }
    std::string text;
    for (const std::string& model : models) {
        cli::Table table({"max/mean, " + model + " dispatch", "step: mean", "median", "p95", "worst", "window: mean",
                          "worst", "mean/max, step"});
        for (std::size_t index = 0; index < subjects.size(); ++index) {
            for (const PartScore& result : scores[index]) {
                if (result.dispatch != model) continue;
                const Percentiles &step = result.summary.step_max_over_mean,
                                  &window = result.summary.window_max_over_mean;
                table.add({line_name(subjects[index], result), fixed(step.mean), fixed(step.median), fixed(step.p95),
                           fixed(step.worst), fixed(window.mean), fixed(window.worst),
                           fixed(result.summary.step_mean_over_max.mean)});
            }
        }
        text += table.text() + "\n";
    }
    return text;
}

std::string legend_text(const PartScore& headline, std::span<const Dispatch> dispatches) {
    std::vector<int> empty;
    for (std::size_t layer = 0; layer < headline.score.layers.size(); ++layer) {
        if (!headline.score.layers[layer]) empty.push_back(static_cast<int>(layer));
    }
    std::string text =
        "  max/mean: the busiest rank's load over the mean rank's, inside a layer; 1 is perfect; then over the "
        "layers.\n"
        "  step: each record slot waits for its busiest rank. window: loads are summed over the record slots first.\n";
    text += fmt::format("  {} of {} layers scored", headline.score.layers_scored(), headline.score.layers.size());
    text += empty.empty() ? ".\n" : fmt::format(" (no counts in {}).\n", number_ranges(empty));
    for (const Dispatch& dispatch : dispatches) {
        text += fmt::format("  dispatch {}: {}.\n", dispatch.label,
                            dispatch.label == "balanced" ? "the table that was fitted together with the layout"
                                                         : dispatch.model->summary);
    }
    return text + "  A score says how even the work is. It is no throughput: measure that on the server.\n";
}

std::string verdict_text(const Verdict& verdict, const std::string& against) {
    std::string text = fmt::format("verdict   {} (against {})\n", name_of(verdict.decision), printable(against));
    for (const std::string& reason : verdict.reasons) text += fmt::format("          {}\n", printable(reason));
    return text;
}

}  // namespace eplb
