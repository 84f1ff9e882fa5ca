#include "options.hpp"

#include <fmt/format.h>

#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"
#include "dispatch/model.hpp"

namespace eplb {

ScoreOptions parse_options(int argc, char** argv) {
    ScoreOptions options;
    std::string holdout, part;
    CLI::App app(
        "Scores a layout on expert counts: how much more the busiest rank carries than the average rank.\n"
        "A score is no throughput: it says how even the work is, not how long it takes.",
        "eplb-score");
    app.add_option("LAYOUT", options.layout, "Layout file (physical_to_logical_map JSON)")->required();
    cli::add_count_options(app, options.counts, "COUNTS")->required();
    app.add_option("--ranks", options.ranks, "Expert-parallel ranks (default: the manifest beside the layout)")
        ->check(cli::whole_number_from(1, max_ranks));
    app.add_option(
        "--holdout", holdout,
        "How the non-zero record slots are split: interleave, halves, last or none (default: as in the manifest "
        "when the layout was fitted on these counts, else interleave)");
    app.add_option("--part", part, "Score only this part: fit, holdout or all (default: holdout first, then fit)");
    std::string dispatch_help =
        "Rule that picks the replica; may be repeated (default: even, which is shown beside every other):";
    for (const DispatchModel& model : dispatch_models()) {
        dispatch_help += fmt::format("\n  {}: {}", model.name, model.summary);
    }
    dispatch_help += "\n  auto, sglang-dynamic: the generation of SGLang that --engine-version has";
    dispatch_help += "\n  balanced: the table that eplb-fit stored beside the layout";
    const auto group = "Dispatch";
    CLI::Option* dispatch =
        app.add_option("--dispatch", options.dispatch.names, dispatch_help)->allow_extra_args(false)->group(group);
    app.add_option("--engine-version", options.dispatch.engine_version,
                   "Release of SGLang, or the date of its newest commit, for --dispatch auto and sglang-dynamic")
        ->group(group)
        ->needs(dispatch);
    app.add_option("--nodes", options.dispatch.nodes, "Hosts that the ranks are spread over")
        ->check(cli::whole_number_from(1, max_ranks))
        ->group(group)
        ->needs(dispatch);
    app.add_option("--tp", options.dispatch.tensor_parallel, "Tensor-parallel size (vllm-ascend)")
        ->check(cli::whole_number_from(1, max_ranks))
        ->group(group)
        ->needs(dispatch);
    app.add_option("--dispatch-table", options.dispatch.table, "Table file for --dispatch table (.npy or .json)")
        ->group(group)
        ->needs(dispatch);
    app.add_option("--source-weights", options.dispatch.source_weights,
                   "Traffic that each source rank sends, a number a rank (.npy or JSON list; default: equal)")
        ->group(group)
        ->needs(dispatch);
    app.add_flag("--sensitivity", options.sensitivity,
                 "Also score with one source rank that sends twice as much as the others, the worst one")
        ->group(group)
        ->needs(dispatch);
    app.add_option("--baseline", options.baselines,
                   "Also score trivial, random or a layout file; may be repeated (default: trivial and random)")
        ->allow_extra_args(false);
    app.add_option("--current", options.current, "What the verdict compares with: trivial or a layout file")
        ->capture_default_str();
    app.add_option("--seed", options.seed, "Seed of the random baseline and of the verdict's half splits")
        ->capture_default_str();
    app.add_flag("--per-layer", options.per_layer, "Print every layer");
    CLI::Option* fail_above =
        app.add_option("--fail-above", options.fail_above, "End with exit code 1 when the figure is above this value")
            ->check(cli::number_between(1.0, 1e9));
    cli::add_choice<FailOn, FailOn>(app, "--fail-on", options.fail_on,
                                    {{"step-mean", FailOn::step_mean},
                                     {"step-worst", FailOn::step_worst},
                                     {"window-mean", FailOn::window_mean},
                                     {"window-worst", FailOn::window_worst}},
                                    "Figure that --fail-above tests: step-mean (default), step-worst, window-mean or "
                                    "window-worst")
        ->needs(fail_above);
    cli::add_common_options(app, options.common,
                            "  eplb-score layout.json counts.pt\n"
                            "  eplb-score layout.json counts.pt --baseline old.json --fail-above 1.3 --json");
    cli::parse(app, argc, argv);

    if (!holdout.empty()) options.holdout = parse_holdout(holdout);
    if (!part.empty()) options.part = parse_part(part);
    if (options.dispatch.names.empty()) options.dispatch.names = {"even"};
    settle_dispatch_options(options.dispatch);
    if (options.baselines.empty()) options.baselines = {"trivial", "random"};
    return options;
}

}  // namespace eplb
