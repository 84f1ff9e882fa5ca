#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/table.hpp"
#include "core/build_info.hpp"
#include "core/printable.hpp"
#include "evaluation/evaluation_json.hpp"
#include "evaluation/evaluation_text.hpp"
#include "files/json_text.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/layout_file.hpp"
#include "server_line.hpp"

namespace eplb {

using Json = nlohmann::ordered_json;

namespace {

std::int64_t moved_total(const Replacement& replacement) {
    return std::accumulate(replacement.moved.begin(), replacement.moved.end(), std::int64_t{0});
}

std::string amount(double bytes) {
    constexpr double unit = 1024;
    for (const char* name : {"B", "KiB", "MiB"}) {
        if (bytes < unit) return fmt::format("{:.4g} {}", bytes, name);
        bytes /= unit;
    }
    return fmt::format("{:.4g} GiB", bytes);
}

Json replacement_json(const FitOptions& options, const FittedLayout& fitted) {
    if (!fitted.replacement) return nullptr;
    const std::int64_t moved = moved_total(*fitted.replacement);
    Json kept = Json::array();
    for (std::size_t layer = 0; layer < fitted.replacement->kept.size(); ++layer) {
        if (fitted.replacement->kept[layer]) kept.push_back(layer);
    }
    return {{"current", *options.current},
            {"min_gain", options.min_gain},
            {"kept_layers", std::move(kept)},
            {"moved_slots", moved},
            {"moved_slots_by_layer", fitted.replacement->moved},
            {"moved_bytes", options.bytes_per_expert ? Json(moved * *options.bytes_per_expert) : Json(nullptr)}};
}

Json curve_json(const FitOptions& options, const Curve& curve) {
    Json points = Json::array();
    for (const CurvePoint& point : curve.points) {
        Json entry{{"redundant_total", point.redundant_total},
                   {"feasible", point.geometry.has_value()},
                   {"reason", point.geometry ? Json(nullptr) : Json(point.infeasible)}};
        entry["slots_per_rank"] = point.geometry ? Json(point.geometry->slots_per_rank) : Json(nullptr);
        entry["part"] = point.score ? Json(name_of(point.score->part)) : Json(nullptr);
        entry["step_max_over_mean"] = point.score ? number_json(point.score->summary.step_max_over_mean.mean) : Json();
        entry["window_max_over_mean"] =
            point.score ? number_json(point.score->summary.window_max_over_mean.mean) : Json();
        const auto& bytes = options.bytes_per_expert;
        entry["extra_bytes_per_rank"] =
            bytes ? Json(extra_bytes_per_rank(curve, point, options.ranks, *bytes)) : Json(nullptr);
        entry["extra_bytes_total"] = bytes ? Json(extra_bytes_total(curve, point, *bytes)) : Json(nullptr);
        points.push_back(std::move(entry));
    }
    return {{"points", std::move(points)},
            {"recommended_redundant_total",
             curve.recommended ? Json(curve.points[*curve.recommended].redundant_total) : Json(nullptr)},
            {"reasons", curve.reasons}};
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json guard_json(const std::optional<GuardFacts>& facts) {
    if (!facts) return nullptr;
    return {{"window_fit", facts->window_fit},
            {"predictability", optional_json(facts->predictability)},
            {"noise_level", facts->noise_level},
            {"replica_exponent", facts->replica_quarters / 4.0},
            {"replica_share", facts->replica_share},
            {"mean_shrink", facts->mean_shrink},
            {"step_layers", facts->step_layers},
            {"window_layers", facts->window_layers},
            {"expected_holdout", optional_json(expected_holdout(*facts))},
            {"expected_gain", optional_json(facts->expected_gain)},
            {"expected_gain_error", facts->expected_gain_error}};
}

Json bound_json(const BoundSummary& summary) {
    return {{"layers", summary.layers},
            {"certified_layers", summary.certified},
            {"certified_gap", certified_gap},
            {"mean", summary.mean},
            {"mean_lower_bound", summary.mean_lower_bound},
            {"mean_gap", summary.mean_gap},
            {"worst_gap", summary.worst_gap},
            {"worst_layer", summary.worst_layer}};
}

Json bounds_json(const FittedLayout& fitted) {
    const PartScore& part = fitted_part(fitted.results.back());
    return {{"window", bound_json(summarize_gaps(part, &LayerBalance::window, part.window_lower_bound))},
            {"step", fitted.step_lower_bound.empty()
                         ? Json(nullptr)
                         : bound_json(summarize_gaps(part, &LayerBalance::step, fitted.step_lower_bound))}};
}

void add_fitted(Json& json, const FitReport& report) {
    const FitOptions& options = *report.options;
    const FittedLayout& fitted = *report.fitted;
    Json baselines = Json::array();
    for (std::size_t index = 0; index + 1 < fitted.subjects.size(); ++index) {
        baselines.push_back({{"name", fitted.subjects[index].name},
                             {"valid", fitted.subjects[index].valid()},
                             {"results", results_json(fitted.results[index])}});
    }
    json["layout"] = {{"file", options.out},
                      {"sha256", fitted.layout_sha256},
                      {"map_hash", fitted.map_hash},
                      {"geometry", geometry_json(fitted.geometry)}};
    json["manifest"] = {{"file", manifest_path(options.out)}, {"sha256", fitted.manifest_sha256}};
    json["guard"] = guard_json(fitted.guard);
    if (fitted.table) {
        json["dispatch_table"] = {{"file", dispatch_table_path(options.out)}, {"sha256", *fitted.table_sha256}};
    }
    json["results"] = results_json(fitted.results.back());
    json["baselines"] = std::move(baselines);
    json["bounds"] = bounds_json(fitted);
    json["replacement"] = replacement_json(options, fitted);
    json["verdict"] = verdict_json(fitted.verdict, fitted.against);
    json["server"] = {{"engine", "sglang"},
                      {"command", server_line(options.out, fitted.geometry)},
                      {"traps", server_traps(fitted.geometry, options)}};
    json["notes"] = fitted.notes;
}

std::string bounds_text(const FittedLayout& fitted) {
    const PartScore& part = fitted_part(fitted.results.back());
    const auto line = [](std::string_view label, std::string_view objective, const BoundSummary& summary) {
        return fmt::format(
            "{:<10}{} {} where it was fitted, no layout is below {}; largest gap {:.2g} % (layer {}), {} of {} layers "
            "within {:g} %\n",
            label, objective, fixed(summary.mean), fixed(summary.mean_lower_bound), 100 * summary.worst_gap,
            summary.worst_layer, summary.certified, summary.layers, 100 * certified_gap);
    };
    std::string text = line("bounds", "window", summarize_gaps(part, &LayerBalance::window, part.window_lower_bound));
    if (fitted.step_lower_bound.empty()) return text;
    const BoundSummary step = summarize_gaps(part, &LayerBalance::step, fitted.step_lower_bound);
    text += line("", "step", step);
    if (step.certified < step.layers && step.mean_lower_bound < 1 + certified_gap) {
        text +=
            "          (a step bound near 1 says that no expert alone forces more; whether one placement\n"
            "          can serve all record slots that well is not known)\n";
    }
    return text;
}

// What cross-validation on the fitted record slots promises, beside what the held-out ones show.
std::string expectation_text(const FittedLayout& fitted) {
    const auto expected = fitted.guard ? expected_holdout(*fitted.guard) : std::nullopt;
    if (!expected) return "";
    const PartScore& headline = fitted.results.back().front();
    std::string text =
        fmt::format("expected  step {} on record slots not fitted on (cross-validated)", fixed(*expected));
    if (headline.part == Part::holdout) {
        text += fmt::format(", {} measured on those held out", fixed(headline.summary.step_max_over_mean.mean));
    }
    return text + "\n";
}

std::string replacement_text(const FitOptions& options, const FittedLayout& fitted) {
    if (!fitted.replacement) return "";
    const std::int64_t moved = moved_total(*fitted.replacement);
    const auto kept = std::count(fitted.replacement->kept.begin(), fitted.replacement->kept.end(), true);
    std::string text = fmt::format(
        "replaces  {}: {} of {} rows stay (gain under {:g} or no counts), {} of {} slots need other weights",
        fitted.against, kept, fitted.geometry.layers, options.min_gain, moved,
        std::int64_t{fitted.geometry.layers} * fitted.geometry.physical_slots());
    if (options.bytes_per_expert) {
        text +=
            fmt::format(", {}", amount(static_cast<double>(moved) * static_cast<double>(*options.bytes_per_expert)));
    }
    return text + "\n";
}

std::string curve_text(const FitOptions& options, const Curve& curve) {
    std::vector<std::string> header{"redundant, total", "a rank", "slots a rank",
                                    "step: mean",       "worst",  "window: mean"};
    if (options.bytes_per_expert) header.insert(header.end(), {"memory a rank", "in total"});
    cli::Table table(header);
    std::string infeasible;
    for (const CurvePoint& point : curve.points) {
        if (!point.geometry) {
            infeasible += fmt::format("  +{}: {}\n", point.redundant_total, point.infeasible);
            continue;
        }
        const ScoreSummary& summary = point.score->summary;
        std::vector<std::string> row{fmt::format("+{}", point.redundant_total),
                                     fmt::format("{:.4g}", static_cast<double>(point.redundant_total) / options.ranks),
                                     fmt::format("{}", point.geometry->slots_per_rank),
                                     fixed(summary.step_max_over_mean.mean),
                                     fixed(summary.step_max_over_mean.worst),
                                     fixed(summary.window_max_over_mean.mean)};
        if (options.bytes_per_expert) {
            row.push_back("+" + amount(extra_bytes_per_rank(curve, point, options.ranks, *options.bytes_per_expert)));
            row.push_back("+" + amount(extra_bytes_total(curve, point, *options.bytes_per_expert)));
        }
        table.add(std::move(row));
    }
    const auto scored = std::find_if(curve.points.begin(), curve.points.end(),
                                     [](const CurvePoint& point) { return point.score.has_value(); });
    std::string text = fmt::format("what redundancy buys (max/mean on the part {}; +0 only rearranges)\n",
                                   scored == curve.points.end() ? "-" : std::string(name_of(scored->score->part)));
    text += table.text() + infeasible;
    if (curve.recommended) {
        text += fmt::format("advice    +{}\n", curve.points[*curve.recommended].redundant_total);
    }
    for (const std::string& reason : curve.reasons) text += fmt::format("          {}\n", reason);
    return text;
}

std::string fitted_text(const FitReport& report) {
    const FitOptions& options = *report.options;
    const FittedLayout& fitted = *report.fitted;
    const std::string how =
        options.policy->obeys_objective
            ? fmt::format(", objective {}, effort {}", name_of(options.objective), name_of(options.effort))
            : std::string();
    std::string text =
        fmt::format("layout    {}, {}\nfit       policy {}{}, seed {}\n\n", counted(fitted.geometry.layers, "layer"),
                    describe(fitted.geometry), options.policy->name, how, options.seed);
    text += scores_text(fitted.subjects, fitted.results);
    text += legend_text(fitted.results.back().front(), report.dispatches) + "\n";
    if (dispatch_name(options) == "even") text += bounds_text(fitted);
    text += expectation_text(fitted) + replacement_text(options, fitted) + verdict_text(fitted.verdict, fitted.against);
    for (const std::string& note : fitted.notes) text += fmt::format("note      {}\n", note);
    text += fmt::format("written   {} ({} redundant in total), {}{}\n\nSGLang\n  {}\n", printable(options.out),
                        fitted.geometry.redundant_total(), printable(manifest_path(options.out)),
                        fitted.table ? ", " + printable(dispatch_table_path(options.out)) : "",
                        printable(server_line(options.out, fitted.geometry)));
    for (const std::string& trap : server_traps(fitted.geometry, options)) text += fmt::format("  ! {}\n", trap);
    return text;
}

}  // namespace

const PartScore& fitted_part(const std::vector<PartScore>& results) {
    const auto even = [](Part part) {
        return [part](const PartScore& result) { return result.part == part && result.dispatch == "even"; };
    };
    const auto fit = std::find_if(results.begin(), results.end(), even(Part::fit));
    return fit != results.end() ? *fit : *std::find_if(results.begin(), results.end(), even(Part::all));
}

std::optional<double> expected_holdout(const GuardFacts& facts) {
    return facts.record_slots < least_expectation_slots ? std::nullopt : facts.expected_holdout;
}

BoundSummary summarize_gaps(const PartScore& fitted, double LayerBalance::*value,
                            const std::vector<double>& lower_bound) {
    BoundSummary summary;
    for (std::size_t layer = 0; layer < fitted.score.layers.size(); ++layer) {
        const auto& balance = fitted.score.layers[layer];
        if (!balance) continue;
        const double reached = (*balance).*value, gap = reached / lower_bound[layer] - 1;
        ++summary.layers;
        if (gap <= certified_gap) ++summary.certified;
        summary.mean += reached;
        summary.mean_lower_bound += lower_bound[layer];
        summary.mean_gap += gap;
        if (summary.layers == 1 || gap > summary.worst_gap) {
            summary.worst_gap = gap;
            summary.worst_layer = static_cast<int>(layer);
        }
    }
    if (summary.layers > 0) {
        for (double* sum : {&summary.mean, &summary.mean_lower_bound, &summary.mean_gap}) *sum /= summary.layers;
    }
    return summary;
}

std::string report_json(const FitReport& report) {
    const FitOptions& options = *report.options;
    const bool obeys = options.policy->obeys_objective;
    Json json{{"tool", "eplb-fit"},
              {"version", version()},
              {"counts", counts_json(*report.input, report.split, options.holdout)},
              {"fit",
               {{"policy", options.policy->name},
                {"dispatch", dispatch_name(options)},
                {"objective", obeys ? Json(name_of(options.objective)) : Json(nullptr)},
                {"effort", obeys ? Json(name_of(options.effort)) : Json(nullptr)},
                {"seed", options.seed},
                {"refit_all", options.refit_all}}}};
    if (report.fitted) add_fitted(json, report);
    if (report.curve) json["redundancy_curve"] = curve_json(options, *report.curve);
    return json_text(json);
}

std::string report_text(const FitReport& report) {
    const FitOptions& options = *report.options;
    std::string text = counts_text(*report.input, report.split, options.holdout, options.common.verbosity > 0);
    if (report.curve) text += "\n" + curve_text(options, *report.curve) + (report.fitted ? "\n" : "");
    if (report.fitted) text += fitted_text(report);
    return text;
}

}  // namespace eplb
