#include "run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/app.hpp"
#include "core/equal_slots.hpp"
#include "core/error.hpp"
#include "fit/problem.hpp"
#include "report.hpp"

namespace eplb {
namespace {

// What the user asked for; else as the layout was fitted, when it was fitted on these counts.
Holdout holdout_of(const ScoreOptions& options, const LayoutInput& layout) {
    if (options.holdout) return *options.holdout;
    if (layout.manifest && layout.fitted && !layout.fitted->empty()) {
        const Holdout fitted_with = parse_holdout(layout.manifest->holdout);
        if (fitted_with != Holdout::none) return fitted_with;
    }
    return Holdout::interleave;
}

// The names to compare with: those asked for and what the verdict compares with, each once; and random wherever trivial
// is, since a contiguous placement alone is a straw man.
std::vector<std::string> baseline_names(const ScoreOptions& options) {
    std::vector<std::string> names;
    const auto add = [&](const std::string& name) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const std::string& name : options.baselines) add(name);
    add(options.current);
    if (std::find(names.begin(), names.end(), "trivial") != names.end()) add("random");
    return names;
}

void refuse_stdin_twice(const ScoreOptions& options) {
    std::vector<std::string> names = baseline_names(options);
    names.push_back(options.layout);
    names.insert(names.end(), options.counts.files.begin(), options.counts.files.end());
    if (std::count(names.begin(), names.end(), "-") > 1) {
        throw Error(ErrorCode::usage, "-", "stdin can be read for one input only", "save the others as files");
    }
}

Subject baseline(const std::string& name, const Geometry& geometry, const ScoreOptions& options,
                 const CountInput& input) {
    if (name == "trivial" || name == "random") {
        FitProblem problem;  // these two policies know nothing of the counts
        problem.geometry = geometry;
        problem.layers.resize(static_cast<std::size_t>(geometry.layers), {0, geometry.experts, {}});
        problem.seed = options.seed;
        return make_subject(name, fit(find_fit_policy(name), problem).layout, std::vector<int>{});
    }
    LayoutInput file = load_layout(name, geometry.ranks, input);
    return make_subject(name, std::move(file.file.layout), std::move(file.fitted));
}

void refuse_illegal(const Subject& layout, const std::string& path) {
    if (layout.valid()) return;
    const Finding& first = layout.violations.front();
    throw Error(ErrorCode::input, first.where.empty() ? path : path + ": " + first.where,
                fmt::format("{}: {}", first.code, first.message), "eplb-validate --layout says what else is wrong");
}

std::string_view name_of(FailOn fail_on) {
    switch (fail_on) {
        case FailOn::step_mean:
            return "step-mean";
        case FailOn::step_worst:
            return "step-worst";
        case FailOn::window_mean:
            return "window-mean";
        case FailOn::window_worst:
            return "window-worst";
    }
    return "step-mean";
}

double figure(const PartScore& result, FailOn fail_on) {
    switch (fail_on) {
        case FailOn::step_mean:
            return result.summary.step_max_over_mean.mean;
        case FailOn::step_worst:
            return result.summary.step_max_over_mean.worst;
        case FailOn::window_mean:
            return result.summary.window_max_over_mean.mean;
        case FailOn::window_worst:
            return result.summary.window_max_over_mean.worst;
    }
    return result.summary.step_max_over_mean.mean;
}

// --fail-above on the headline of every dispatch model. Without a part that was held out there is nothing to judge,
// unless the user named the part.
Gate gate_of(const ScoreReport& report) {
    const ScoreOptions& options = *report.options;
    const std::vector<PartScore>& results = report.results.front();
    const PartScore& headline = results.front();
    if (distinct(report.input->first_equal) < 2) {
        return {false, fmt::format("insufficient evidence: one {}record slot with counts, nothing to hold out",
                                   report.input->filled.size() > 1 ? "distinct " : "")};
    }
    if (headline.in_sample == true && !options.part && !options.holdout) {
        return {false, "insufficient evidence: the layout was fitted on the record slots it is scored on"};
    }
    if (headline.score.layers_scored() == 0) {
        return {false,
                fmt::format("insufficient evidence: no layer has counts in the part {}", name_of(headline.part))};
    }
    Gate gate{true, {}};
    for (const PartScore& result : results) {
        const auto& asked = options.dispatch.names;  // the even split may be there for comparison only
        if (result.part != headline.part || std::find(asked.begin(), asked.end(), result.dispatch) == asked.end()) {
            continue;
        }
        const double value = figure(result, options.fail_on);
        const bool above = value > *options.fail_above;
        if (above) gate.passed = false;
        gate.reason += fmt::format("{}{} {:.6g} (part {}, {} dispatch) is {} {}", gate.reason.empty() ? "" : "; ",
                                   name_of(options.fail_on), value, name_of(result.part), result.dispatch,
                                   above ? "above" : "not above", *options.fail_above);
    }
    return gate;
}

// The step value of the headline part when one source rank sends twice what each of the others does; the worst rank.
std::vector<Sensitivity> sensitivities_of(const ScoreReport& report) {
    const Layout& layout = report.subjects.front().layout;
    const Part part = report.results.front().front().part;
    const std::vector<int> slots = record_slots_of(report.split, part);
    const int ranks = layout.geometry().ranks;
    std::vector<Sensitivity> found;
    for (const Dispatch& dispatch : report.dispatches) {
        std::vector<ReplicaShares> shares;
        for (int rank = 0; rank < ranks; ++rank) {
            DispatchContext context = dispatch.context;
            if (context.source_weights.empty()) context.source_weights.assign(static_cast<std::size_t>(ranks), 1.0);
            context.source_weights[static_cast<std::size_t>(rank)] *= 2;
            shares.push_back(replica_shares(*dispatch.model, layout, context));
        }
        std::vector<Placement> placements;
        for (const ReplicaShares& one : shares) placements.push_back({&layout, &one});
        const auto scores =
            score_layouts(report.input->counts, slots, placements, report.options->common.thread_count());
        Sensitivity sensitivity{dispatch.label, part, 0, 0};
        for (int rank = 0; rank < ranks; ++rank) {
            const double step = summarize(scores[static_cast<std::size_t>(rank)]).step_max_over_mean.mean;
            if (step > sensitivity.step_max_over_mean) sensitivity = {dispatch.label, part, rank, step};
        }
        found.push_back(sensitivity);
    }
    return found;
}

// What the layout has to beat: --current first, then random where it is scored too. Nothing is fitted here, so
// redundancy 0 is compared with where a baseline file without redundant slots was given, if it was not fitted on what
// is scored.
std::vector<Rival> rivals_of(const ScoreReport& report) {
    std::vector<Rival> rivals;
    for (std::size_t index = 1; index < report.subjects.size(); ++index) {
        const Subject& subject = report.subjects[index];
        const std::vector<PartScore>& results = report.results[index];
        const auto add = [&](Rival::Kind kind) { rivals.push_back(make_rival(kind, subject.name, results)); };
        if (subject.name == report.options->current) {
            rivals.insert(rivals.begin(), make_rival(Rival::Kind::current, subject.name, results));
        } else if (subject.name == "random") {
            add(Rival::Kind::random);
        } else if (subject.name != "trivial" && subject.valid() && results.front().in_sample != true &&
                   subject.layout.geometry().redundant_total() == 0 &&
                   report.subjects.front().layout.geometry().redundant_total() > 0) {
            add(Rival::Kind::redundancy_0);
        }
    }
    return rivals;
}

Verdict verdict_on(const ScoreReport& report) {
    Evidence evidence = evidence_on(*report.input, report.split, report.results.front().front(), report.options->seed);
    evidence.rivals = rivals_of(report);
    return judge(evidence);
}

std::vector<std::string> notes_of(const ScoreReport& report) {
    std::vector<std::string> notes;
    if (report.dispatches.front().subject) {
        notes.push_back(fmt::format(
            "a dispatch table is made for one layout: beside {} the others are scored under the next dispatch",
            report.dispatches.front().label));
    }
    const PartScore& headline = report.results.front().front();
    if (!headline.in_sample) {
        notes.push_back("no manifest beside the layout: whether it was fitted on these record slots is not known");
    } else if (*headline.in_sample) {
        notes.push_back("the layout was fitted on record slots of the headline part: its scores are in-sample");
    } else if (report.layout->fitted->empty()) {
        notes.push_back("the layout was not fitted on these counts; --holdout none scores every record slot");
    }
    for (std::size_t index = 1; index < report.subjects.size(); ++index) {
        const Subject& subject = report.subjects[index];
        if (subject.valid()) continue;
        const Finding& first = subject.violations.front();
        notes.push_back(fmt::format("baseline {} is no legal layout: {}: {}{}{}", subject.name, first.code,
                                    first.message, first.where.empty() ? "" : ", " + first.where,
                                    report.results[index].empty() ? "; it cannot be scored" : ""));
    }
    if (report.gate) {
        notes.push_back(
            fmt::format("--fail-above: {}: {}", report.gate->passed ? "passed" : "failed", report.gate->reason));
    }
    return notes;
}

}  // namespace

int run(const ScoreOptions& options) {
    refuse_stdin_twice(options);
    const CountInput input = load_counts(options.counts, options.common.thread_count());
    const LayoutInput layout = load_layout(options.layout, options.ranks, input);

    ScoreReport report{&options, &input, &layout, holdout_of(options, layout), {}, {}, {}, {}, {}, {}, {}, {}};
    report.split = split_counts(input, report.holdout);
    report.subjects.push_back(make_subject("layout", layout.file.layout, layout.fitted));
    refuse_illegal(report.subjects.front(), options.layout);
    report.dispatches = load_dispatches(options.dispatch, layout, report.subjects.front().name);
    for (const std::string& name : baseline_names(options)) {
        report.subjects.push_back(baseline(name, layout.file.layout.geometry(), options, input));
    }

    report.results = evaluate(input.counts, report.split, parts_of(report.split, options.part), report.subjects,
                              report.dispatches, options.common.thread_count());
    if (options.sensitivity) report.sensitivities = sensitivities_of(report);
    report.verdict = verdict_on(report);
    if (options.fail_above) report.gate = gate_of(report);
    report.notes = notes_of(report);

    cli::print(options.common.json ? report_json(report) : report_text(report));
    return report.gate && !report.gate->passed ? 1 : 0;
}

}  // namespace eplb
