#include "run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "check/dispatch_table.hpp"
#include "check/layout.hpp"
#include "cli/app.hpp"
#include "core/build_info.hpp"
#include "core/equal_slots.hpp"
#include "core/error.hpp"
#include "core/parallel_loop.hpp"
#include "evaluation/evaluation_text.hpp"
#include "evaluation/layout_input.hpp"
#include "files/digest.hpp"
#include "files/output.hpp"
#include "fit/migrate.hpp"
#include "fitting.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/layout_file.hpp"
#include "provenance.hpp"
#include "report.hpp"
#include "score/step_bound.hpp"

namespace eplb {
namespace {

namespace fs = std::filesystem;

// What would fail after the fit fails before it.
void refuse_outputs_in_the_way(const FitOptions& options) {
    std::error_code ignored;
    std::vector<std::string> outputs{options.out, manifest_path(options.out)};
    if (makes_table(options)) {
        outputs.push_back(dispatch_table_path(options.out));
        outputs.push_back(dispatch_table_manifest_path(outputs.back()));
    }
    for (const std::string& path : outputs) {
        for (const std::string& file : options.counts.files) {
            if (fs::equivalent(path, file, ignored)) {
                throw Error(ErrorCode::usage, "--out", fmt::format("{} is one of the count files", path));
            }
        }
    }
    if (!options.force && fs::exists(outputs[1], ignored) && !fs::exists(outputs[0], ignored)) {
        throw Error(ErrorCode::output, outputs[1],
                    "exists without its layout: an earlier run was ended between the two", "--force replaces it");
    }
    for (const std::string& path : outputs) require_writable(path, options.force);
}

// What the same counts give without redundant slots; none where that is no other layout, and a note says why.
std::optional<Subject> without_redundancy(const FitReport& report, const Geometry& geometry, Fits& fits,
                                          std::vector<std::string>& notes) {
    if (geometry.redundant_total() == 0) {
        notes.push_back("not compared with redundancy 0: this layout has none");
        return std::nullopt;
    }
    if (geometry.experts % geometry.ranks != 0) {
        notes.push_back(fmt::format("not compared with redundancy 0: {} experts do not divide by {} ranks",
                                    geometry.experts, geometry.ranks));
        return std::nullopt;
    }
    const Geometry bare = geometry_with_redundancy(geometry.layers, geometry.experts, geometry.ranks, 0);
    return make_subject("redundancy-0", fits.of(bare, "fitting without redundancy").result.layout, report.split.fit);
}

// The layout in service, when there is one, is the last.
std::vector<Subject> baselines(const FitReport& report, const Geometry& geometry, Fits& fits,
                               std::vector<std::string>& notes) {
    const FitOptions& options = *report.options;
    std::vector<Subject> subjects;
    for (const std::string name : {"trivial", "random"}) {
        FitResult result = fit_on(options, find_fit_policy(name), report.input->counts, {}, geometry, name);
        subjects.push_back(make_subject(name, std::move(result.layout), std::vector<int>{}));
    }
    if (auto bare = without_redundancy(report, geometry, fits, notes)) subjects.push_back(std::move(*bare));
    if (options.current == "trivial") {
        subjects.push_back(make_subject("current", trivial_layout(geometry), std::vector<int>{}));
    } else if (options.current) {
        LayoutInput current = load_layout(*options.current, options.ranks, *report.input);
        subjects.push_back(make_subject("current", std::move(current.file.layout), std::move(current.fitted)));
    }
    return subjects;
}

// What the layout would replace, then random and redundancy 0.
std::vector<Rival> rivals_of(const FittedLayout& fitted, std::size_t current) {
    std::vector<Rival> rivals{make_rival(Rival::Kind::current, fitted.against, fitted.results[current])};
    for (std::size_t index = 0; index + 1 < fitted.subjects.size(); ++index) {
        const std::string& name = fitted.subjects[index].name;
        if (name == "random") rivals.push_back(make_rival(Rival::Kind::random, name, fitted.results[index]));
        if (name == "redundancy-0")
            rivals.push_back(make_rival(Rival::Kind::redundancy_0, name, fitted.results[index]));
    }
    return rivals;
}

// Rows of the current layout stay where the fitted ones gain too little; the others are named after it.
Replacement replace_current(const FitReport& report, const Subject& current, Layout& layout) {
    const FitOptions& options = *report.options;
    const std::vector<Subject> pair{current, make_subject("fitted", layout, report.split.fit)};
    const Part headline = parts_of(report.split, std::nullopt).front();
    const auto results = evaluate(report.input->counts, report.split, {&headline, 1}, pair, report.dispatches,
                                  options.common.thread_count());
    Replacement replacement;
    if (results.front().empty()) {
        replacement.kept.resize(static_cast<std::size_t>(layout.geometry().layers));
    } else {
        replacement.kept = rows_to_keep(current.layout, results.front().front().score, layout,
                                        results.back().front().score, options.min_gain);
    }
    layout = migrate(current.layout, layout, replacement.kept);
    replacement.moved = moved_slots_by_layer(current.layout, layout);
    return replacement;
}

// [L], of the record slots that were fitted on.
std::vector<double> step_bounds(const FitOptions& options, const Counts& counts, const std::vector<int>& record_slots,
                                const Geometry& geometry) {
    std::vector<double> bounds(static_cast<std::size_t>(geometry.layers));
    for_each_index(geometry.layers, options.common.thread_count(), [&](int layer) {
        bounds[static_cast<std::size_t>(layer)] =
            step_lower_bound(gather(counts, layer, record_slots), geometry.ranks, geometry.slots_per_rank);
    });
    return bounds;
}

void append(std::vector<std::string>& notes, std::vector<std::string> more) {
    notes.insert(notes.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

FittedLayout fit_layout(FitReport& report, Fits& fits) {
    const FitOptions& options = *report.options;
    const CountInput& input = *report.input;
    FittedLayout fitted;
    fitted.geometry = geometry_of(options, input.counts.layers(), input.counts.experts());
    fitted.against = options.current ? base_name(*options.current) : "trivial";

    DispatchedFit dispatched = fits.of(fitted.geometry, "fitting");
    report.dispatches = dispatched.dispatches(options, "fitted");
    FitResult& result = dispatched.result;
    append(fitted.notes, std::move(result.notes));
    if (const int different = distinct(input.first_equal); different < static_cast<int>(input.filled.size())) {
        fitted.notes.push_back(fmt::format("{} record slots with counts, {} distinct: copies are one observation",
                                           input.filled.size(), different));
    }
    fitted.guard = result.guard;
    fitted.subjects = baselines(report, fitted.geometry, fits, fitted.notes);
    if (options.current) {
        fitted.replacement = replace_current(report, fitted.subjects.back(), result.layout);
        if (!report.split.holdout.empty()) {
            fitted.notes.push_back(
                "which rows stay was decided on the held-out record slots: the scores on them are slightly optimistic");
        }
    }
    if (options.policy->obeys_objective && options.objective == Objective::step) {
        fitted.step_lower_bound = step_bounds(options, input.counts, report.split.fit, fitted.geometry);
    }
    const std::size_t current = options.current ? fitted.subjects.size() - 1 : 0;  // else trivial
    fitted.subjects.push_back(make_subject("fitted", result.layout, report.split.fit));
    fitted.results = evaluate(input.counts, report.split, parts_of(report.split, std::nullopt), fitted.subjects,
                              report.dispatches, options.common.thread_count());
    Evidence evidence = evidence_on(input, report.split, fitted.results.back().front(), options.seed);
    evidence.rivals = rivals_of(fitted, current);
    fitted.verdict = judge(evidence);

    fitted.written = std::move(result.layout);
    fitted.table = std::move(dispatched.table);
    if (options.refit_all) {
        DispatchedFit refit = fit_as_asked(options, input.counts, input.filled, fitted.geometry, "fitting again");
        fitted.written = fitted.replacement
                             ? migrate(fitted.subjects[current].layout, refit.result.layout, fitted.replacement->kept)
                             : std::move(refit.result.layout);
        fitted.table = std::move(refit.table);
        if (fitted.replacement) {
            fitted.replacement->moved = moved_slots_by_layer(fitted.subjects[current].layout, fitted.written);
        }
        fitted.notes.push_back(fmt::format(
            "the written layout is fitted on all {} record slots; scores and verdict are those of the layout fitted on "
            "the part fit",
            input.filled.size()));
    }
    return fitted;
}

// The dispatch table with its own manifest.
void add_table(FitReport& report, OutputSet& outputs) {
    const FitOptions& options = *report.options;
    FittedLayout& fitted = *report.fitted;
    if (any_at_least(check_dispatch_table(*fitted.table, fitted.written), Severity::error)) {
        throw Error(ErrorCode::internal, options.out, "the dispatch table does not go with the layout",
                    "please report this bug");
    }
    const std::string path = dispatch_table_path(options.out);
    const std::vector<std::byte> bytes = encode_dispatch_table(*fitted.table, path);
    fitted.table_sha256 = sha256_hex(bytes);
    DispatchTableManifest manifest;
    manifest.layout_sha256 = fitted.layout_sha256;
    manifest.table_sha256 = *fitted.table_sha256;
    manifest.ranks = fitted.geometry.ranks;
    manifest.layers = fitted.geometry.layers;
    manifest.experts = fitted.geometry.experts;
    manifest.dispatch = dispatch_name(options);
    manifest.nodes = options.dispatch.nodes;
    manifest.tool_version = version();
    manifest.tool_commit = commit();
    outputs.add(dispatch_table_manifest_path(path), encode_dispatch_table_manifest(manifest));
    outputs.add(path, bytes);
}

// The layout last: whoever sees it finds the manifest that belongs to it.
void write(FitReport& report) {
    const FitOptions& options = *report.options;
    FittedLayout& fitted = *report.fitted;
    const std::string text = encode_layout(fitted.written);
    if (!check_layout(fitted.written).empty() ||
        decode_layout(text, fitted.geometry.ranks, fitted.geometry.experts) != fitted.written) {
        throw Error(ErrorCode::internal, options.out, "the layout is not legal or does not read back",
                    "please report this bug");
    }
    fitted.layout_sha256 = sha256_hex(text);
    fitted.map_hash = map_hash(fitted.written);
    OutputSet outputs(options.force);
    if (fitted.table) add_table(report, outputs);
    const std::string manifest = encode_manifest(manifest_of(report));
    fitted.manifest_sha256 = sha256_hex(manifest);
    outputs.add(manifest_path(options.out), manifest);
    outputs.add(options.out, text);
    outputs.commit();
}

}  // namespace

int run(const FitOptions& options) {
    if (!options.out.empty()) refuse_outputs_in_the_way(options);
    FitReport report;
    report.options = &options;
    report.scenario = options.scenario ? read_scenario(*options.scenario) : unobserved_scenario();
    const CountInput input = load_counts(options.counts, options.common.thread_count());
    report.input = &input;
    report.split = split_counts(input, options.holdout);
    Fits fits(options, input.counts, report.split.fit);
    if (!options.redundancy_curve.empty()) {
        report.curve = redundancy_curve(options, input, report.split, fits);
    }
    if (!options.out.empty()) {
        report.fitted = fit_layout(report, fits);
        write(report);
    }
    cli::print(options.common.json ? report_json(report) : report_text(report));
    return 0;
}

}  // namespace eplb
