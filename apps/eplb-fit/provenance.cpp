#include "provenance.hpp"

#include <algorithm>
#include <set>

#include "core/build_info.hpp"
#include "evaluation/evaluation_text.hpp"

namespace eplb {
namespace {

// The record slots of a file that are among `slots` of the counts; `slot_in_counts` says where each lies.
std::vector<int> slots_of_file(const std::vector<int>& slots, const std::vector<int>& slot_in_counts) {
    std::vector<int> of_file;
    for (std::size_t slot = 0; slot < slot_in_counts.size(); ++slot) {
        if (std::binary_search(slots.begin(), slots.end(), slot_in_counts[slot])) {
            of_file.push_back(static_cast<int>(slot));
        }
    }
    return of_file;
}

std::vector<ManifestCountFile> count_files(const FitReport& report) {
    const CountInput& input = *report.input;
    const bool everything = report.options->refit_all;
    std::vector<ManifestCountFile> files;
    for (std::size_t index = 0; index < input.files.size(); ++index) {
        const std::vector<int>& slot_in_counts = input.slot_in_counts[index];
        ManifestCountFile file;
        file.name = base_name(input.files[index].path);
        file.sha256 = input.files[index].sha256;
        file.total = input.reports[index].statistics->total;
        file.record_slots = input.reports[index].record_slots;
        file.fitted = slots_of_file(everything ? input.filled : report.split.fit, slot_in_counts);
        if (!everything) file.held_out = slots_of_file(report.split.holdout, slot_in_counts);
        files.push_back(std::move(file));
    }
    return files;
}

// The codes that --accept was needed for, each once.
std::vector<std::string> accepted_codes(const FitReport& report) {
    std::set<std::string> codes;
    const auto collect = [&](const std::vector<Finding>& findings) {
        for (const Finding& finding : findings) {
            if (finding.accepted) codes.insert(finding.code);
        }
    };
    for (const CountReport& file : report.input->reports) collect(file.findings);
    collect(report.input->findings);
    return {codes.begin(), codes.end()};
}

std::vector<ManifestScore> scores_of(const FittedLayout& fitted) {
    std::vector<ManifestScore> scores;
    for (std::size_t index = 0; index < fitted.subjects.size(); ++index) {
        const std::string name = base_name(fitted.subjects[index].name);
        for (const PartScore& result : fitted.results[index]) {
            scores.push_back({name, result.dispatch, std::string(name_of(result.part)), result.score.layers_scored(),
                              result.summary.step_max_over_mean.mean, result.summary.step_max_over_mean.worst,
                              result.summary.window_max_over_mean.mean, result.summary.window_max_over_mean.worst});
        }
    }
    return scores;
}

std::vector<std::optional<ManifestLayer>> layers_of(const FittedLayout& fitted) {
    const PartScore& part = fitted_part(fitted.results.back());
    std::vector<std::optional<ManifestLayer>> layers;
    for (std::size_t layer = 0; layer < part.score.layers.size(); ++layer) {
        const auto& balance = part.score.layers[layer];
        if (!balance) {
            layers.emplace_back();
            continue;
        }
        ManifestLayer entry;
        entry.window = balance->window;
        entry.window_lower_bound = part.window_lower_bound[layer];
        entry.step = balance->step;
        if (!fitted.step_lower_bound.empty()) entry.step_lower_bound = fitted.step_lower_bound[layer];
        entry.kept = fitted.replacement && fitted.replacement->kept[layer];
        layers.emplace_back(entry);
    }
    return layers;
}

ManifestGuard guard_of(const GuardFacts& facts) {
    ManifestGuard guard;
    guard.window_fit = facts.window_fit;
    guard.predictability = facts.predictability;
    guard.noise_level = facts.noise_level;
    guard.replica_exponent = facts.replica_quarters / 4.0;
    guard.replica_share = facts.replica_share;
    guard.mean_shrink = facts.mean_shrink;
    guard.step_layers = facts.step_layers;
    guard.window_layers = facts.window_layers;
    guard.expected_holdout = expected_holdout(facts);
    guard.expected_gain = facts.expected_gain;
    guard.expected_gain_error = facts.expected_gain_error;
    return guard;
}

}  // namespace

Manifest manifest_of(const FitReport& report) {
    const FitOptions& options = *report.options;
    const FittedLayout& fitted = *report.fitted;
    Manifest manifest;
    manifest.layout_sha256 = fitted.layout_sha256;
    manifest.map_hash = fitted.map_hash;
    manifest.dispatch_table_sha256 = fitted.table_sha256;
    manifest.geometry = fitted.geometry;
    manifest.counts = count_files(report);
    manifest.reduction = report.input->reports.front().reduction;
    manifest.holdout = name_of(options.holdout);
    manifest.refit_all = options.refit_all;
    manifest.accepted = accepted_codes(report);
    manifest.scenario = report.scenario;
    manifest.policy = options.policy->name;
    if (options.policy->obeys_objective) {
        manifest.objective = name_of(options.objective);
        manifest.effort = name_of(options.effort);
    }
    manifest.dispatch = dispatch_name(options);
    manifest.seed = options.seed;
    if (fitted.guard) manifest.guard = guard_of(*fitted.guard);
    manifest.tool_version = version();
    manifest.tool_commit = commit();
    manifest.command_line = canonical_command_line(options);
    manifest.scores = scores_of(fitted);
    manifest.layers = layers_of(fitted);
    manifest.verdict = ManifestVerdict{std::string(name_of(fitted.verdict.decision)),
                                       fitted.against,
                                       fitted.verdict.reasons,
                                       fitted.verdict.gain,
                                       fitted.verdict.gain_spread,
                                       fitted.verdict.worse_layers};
    manifest.notes = fitted.notes;
    return manifest;
}

}  // namespace eplb
