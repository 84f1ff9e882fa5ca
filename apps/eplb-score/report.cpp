#include "report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "core/build_info.hpp"
#include "evaluation/evaluation_json.hpp"
#include "evaluation/evaluation_text.hpp"

namespace eplb {

using Json = nlohmann::ordered_json;

namespace {

std::string per_layer_text(const std::vector<PartScore>& results) {
    std::string text;
    for (const PartScore& result : results) {
        cli::Table table({fmt::format("layer ({}, {} dispatch)", name_of(result.part), result.dispatch), "step",
                          "window", "window bound", "busiest rank"});
        for (std::size_t layer = 0; layer < result.score.layers.size(); ++layer) {
            const auto& balance = result.score.layers[layer];
            if (balance) {
                table.add({fmt::format("{}", layer), fixed(balance->step), fixed(balance->window),
                           fixed(result.window_lower_bound[layer]), fmt::format("{}", balance->worst_rank)});
            } else {
                table.add({fmt::format("{}", layer), "-", "-", "-", "-"});
            }
        }
        text += table.text() + "\n";
    }
    return text;
}

}  // namespace

std::string report_json(const ScoreReport& report) {
    const LayoutFile& file = report.layout->file;
    Json baselines = Json::array();
    for (std::size_t index = 1; index < report.subjects.size(); ++index) {
        baselines.push_back({{"name", report.subjects[index].name},
                             {"valid", report.subjects[index].valid()},
                             {"results", results_json(report.results[index])}});
    }
    const Json json{{"tool", "eplb-score"},
                    {"version", version()},
                    {"layout",
                     {{"file", file.path},
                      {"sha256", file.sha256},
                      {"manifest", report.layout->manifest ? Json(manifest_path(file.path)) : Json(nullptr)},
                      {"geometry", geometry_json(file.layout.geometry())}}},
                    {"counts", counts_json(*report.input, report.split, report.holdout)},
                    {"results", results_json(report.results.front())},
                    {"baselines", std::move(baselines)},
                    {"verdict", verdict_json(report.verdict, report.options->current)},
                    {"notes", report.notes}};
    return json.dump() + "\n";
}

std::string report_text(const ScoreReport& report) {
    const LayoutFile& file = report.layout->file;
    std::string text = fmt::format("layout    {}: {}, {}\n", file.path, counted(file.layout.geometry().layers, "layer"),
                                   describe(file.layout.geometry()));
    text += counts_text(*report.input, report.split, report.holdout, report.options->common.verbosity > 0) + "\n";
    text += scores_text(report.subjects, report.results);
    text += legend_text(report.results.front().front(), report.dispatches) + "\n";
    if (report.options->per_layer) text += per_layer_text(report.results.front());
    text += verdict_text(report.verdict, report.options->current);
    for (const std::string& note : report.notes) text += fmt::format("note      {}\n", note);
    return text;
}

}  // namespace eplb
