#include "evaluation/evaluation_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/equal_slots.hpp"

namespace eplb {

using Json = nlohmann::ordered_json;

namespace {

Json percentiles_json(const Percentiles& percentiles) {
    return {{"mean", number_json(percentiles.mean)},
            {"median", number_json(percentiles.median)},
            {"p95", number_json(percentiles.p95)},
            {"worst", number_json(percentiles.worst)}};
}

Json findings_json(const std::vector<Finding>& findings) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
        list.push_back({{"severity", name_of(finding.severity)},
                        {"code", finding.code},
                        {"where", finding.where},
                        {"message", finding.message},
                        {"hint", finding.hint}});
    }
    return list;
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Json number_json(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json geometry_json(const Geometry& geometry) {
    return {{"layers", geometry.layers},
            {"experts", geometry.experts},
            {"ranks", geometry.ranks},
            {"slots_per_rank", geometry.slots_per_rank},
            {"redundant_total", geometry.redundant_total()}};
}

Json counts_json(const CountInput& input, const RecordSplit& split, Holdout holdout) {
    Json files = Json::array();
    for (std::size_t index = 0; index < input.files.size(); ++index) {
        const CountFile& file = input.files[index];
        const CountReport& report = input.reports[index];
        files.push_back({{"file", file.path},
                         {"format", file.format},
                         {"sha256", file.sha256},
                         {"record_slots", report.record_slots},
                         {"reduction", name_of(report.reduction)},
                         {"total", report.statistics->total},
                         {"findings", findings_json(report.findings)}});
    }
    return {{"files", files},
            {"findings", findings_json(input.findings)},
            {"layers", input.counts.layers()},
            {"experts", input.counts.experts()},
            {"record_slots",
             {{"total", input.counts.record_slots()},
              {"nonzero", input.filled.size()},
              {"distinct", distinct(input.first_equal)}}},
            {"split", {{"holdout", name_of(holdout)}, {"fit", split.fit}, {"held_out", split.holdout}}}};
}

Json results_json(const std::vector<PartScore>& results) {
    Json list = Json::array();
    for (const PartScore& result : results) {
        Json layers = Json::array();
        for (std::size_t layer = 0; layer < result.score.layers.size(); ++layer) {
            const auto& balance = result.score.layers[layer];
            if (!balance) {
                layers.push_back(nullptr);
                continue;
            }
            layers.push_back({{"layer", layer},
                              {"step_max_over_mean", balance->step},
                              {"window_max_over_mean", balance->window},
                              {"window_lower_bound", result.window_lower_bound[layer]},
                              {"worst_rank", balance->worst_rank}});
        }
        list.push_back({{"dispatch", result.dispatch},
                        {"part", name_of(result.part)},
                        {"in_sample", optional_json(result.in_sample)},
                        {"layers_scored", result.score.layers_scored()},
                        {"replica_share_max_over_mean", result.replica_share_max_over_mean},
                        {"layers", std::move(layers)},
                        {"summary",
                         {{"step_max_over_mean", percentiles_json(result.summary.step_max_over_mean)},
                          {"step_mean_over_max", percentiles_json(result.summary.step_mean_over_max)},
                          {"window_max_over_mean", percentiles_json(result.summary.window_max_over_mean)},
                          {"window_mean_over_max", percentiles_json(result.summary.window_mean_over_max)}}}});
    }
    return list;
}

Json verdict_json(const Verdict& verdict, const std::string& against) {
    Json comparisons = Json::array();
    for (const Comparison& comparison : verdict.comparisons) {
        comparisons.push_back({{"name", comparison.name},
                               {"step_max_over_mean", comparison.step},
                               {"gain", comparison.gain},
                               {"gain_spread", optional_json(comparison.gain_spread)},
                               {"passed", comparison.passed}});
    }
    return {{"decision", name_of(verdict.decision)},
            {"against", against},
            {"reasons", verdict.reasons},
            {"gain", optional_json(verdict.gain)},
            {"gain_spread", optional_json(verdict.gain_spread)},
            {"comparisons", std::move(comparisons)},
            {"worse_layers", verdict.worse_layers}};
}

}  // namespace eplb
