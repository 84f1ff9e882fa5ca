#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "core/build_info.hpp"
#include "core/printable.hpp"
#include "evaluation/evaluation_json.hpp"
#include "evaluation/evaluation_text.hpp"
#include "files/json_text.hpp"

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

// What the rule makes of the layout beside the even split: the layers hurt most.
std::string dispatch_text(const ScoreReport& report) {
    const std::vector<PartScore>& results = report.results.front();
    const Part part = results.front().part;
    const auto even = std::find_if(results.begin(), results.end(), [&](const PartScore& result) {
        return result.part == part && result.dispatch == "even";
    });
    std::string text;
    for (const PartScore& result : results) {
        if (result.part != part || result.dispatch == "even" || even == results.end()) continue;
        std::vector<std::size_t> layers;
        const auto loss = [&](std::size_t layer) {
            return result.score.layers[layer]->step - even->score.layers[layer]->step;
        };
        for (std::size_t layer = 0; layer < result.score.layers.size(); ++layer) {
            if (result.score.layers[layer] && loss(layer) > 0) layers.push_back(layer);
        }
        std::stable_sort(layers.begin(), layers.end(), [&](std::size_t a, std::size_t b) { return loss(a) > loss(b); });
        if (layers.size() > 3) layers.resize(3);
        text += fmt::format("dispatch  {}: the busiest replica gets {:.2f} times the even share of its expert",
                            result.dispatch, result.replica_share_max_over_mean);
        for (std::size_t i = 0; i < layers.size(); ++i) {
            text +=
                fmt::format("{} {} ({} -> {})", i == 0 ? "; layers hurt most, even -> as dispatched:" : ",", layers[i],
                            fixed(even->score.layers[layers[i]]->step), fixed(result.score.layers[layers[i]]->step));
        }
        text += "\n";
    }
    for (const Sensitivity& sensitivity : report.sensitivities) {
        text += fmt::format("sensitive {}: step {} (part {}) when source rank {} sends twice as much as the others\n",
                            sensitivity.dispatch, fixed(sensitivity.step_max_over_mean), name_of(sensitivity.part),
                            sensitivity.rank);
    }
    return text;
}

Json sensitivities_json(const std::vector<Sensitivity>& sensitivities) {
    Json list = Json::array();
    for (const Sensitivity& sensitivity : sensitivities) {
        list.push_back({{"dispatch", sensitivity.dispatch},
                        {"part", name_of(sensitivity.part)},
                        {"rank", sensitivity.rank},
                        {"step_max_over_mean", number_json(sensitivity.step_max_over_mean)}});
    }
    return list;
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
    Json json{{"tool", "eplb-score"},
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
    if (report.options->sensitivity) json["sensitivity"] = sensitivities_json(report.sensitivities);
    return json_text(json);
}

std::string report_text(const ScoreReport& report) {
    const LayoutFile& file = report.layout->file;
    std::string text = fmt::format("layout    {}: {}, {}\n", printable(file.path),
                                   counted(file.layout.geometry().layers, "layer"), describe(file.layout.geometry()));
    text += counts_text(*report.input, report.split, report.holdout, report.options->common.verbosity > 0) + "\n";
    text += scores_text(report.subjects, report.results);
    text += legend_text(report.results.front().front(), report.dispatches) + "\n";
    text += dispatch_text(report);
    if (report.options->per_layer) text += per_layer_text(report.results.front());
    text += verdict_text(report.verdict, report.options->current);
    for (const std::string& note : report.notes) text += fmt::format("note      {}\n", note);
    return text;
}

}  // namespace eplb
