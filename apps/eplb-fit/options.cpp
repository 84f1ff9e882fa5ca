#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"
#include "dispatch/sglang_releases.hpp"
#include "evaluation/evaluation_text.hpp"

namespace eplb {
namespace {

constexpr Objective default_objective = Objective::step;

const std::vector<std::pair<std::string, Objective>> objectives{{"step", Objective::step},
                                                                {"window", Objective::window}};
const std::vector<std::pair<std::string, Effort>> efforts{
    {"fast", Effort::fast}, {"default", Effort::standard}, {"thorough", Effort::thorough}};

template <typename T>
std::string_view key_of(const std::vector<std::pair<std::string, T>>& names, T value) {
    return std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.second == value; })->first;
}

// "48", "R" or "2R", R being the number of ranks.
int redundancy_of(const std::string& text, int ranks) {
    std::int64_t factor = 1;
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, factor);
    const bool multiple = stop != end && *stop == 'R';
    if (multiple) ++stop;
    const bool number_read = error == std::errc() || (multiple && text == "R");
    if (!number_read || stop != end || factor < 0 || factor > max_physical_slots) {
        throw Error(ErrorCode::usage, "--redundancy-curve",
                    fmt::format("'{}' is no whole number or multiple of R", text), "for example 0,R,2R or 0,16,32");
    }
    const std::int64_t total = multiple ? factor * ranks : factor;
    if (total > max_physical_slots) {
        throw Error(ErrorCode::usage, "--redundancy-curve",
                    fmt::format("{} redundant slots are more than {}", total, max_physical_slots));
    }
    return static_cast<int>(total);
}

std::vector<int> curve_of(const std::vector<std::string>& texts, int ranks) {
    std::vector<int> totals;
    if (texts.empty()) return totals;
    totals.push_back(0);
    for (const std::string& text : texts) totals.push_back(redundancy_of(text, ranks));
    std::sort(totals.begin(), totals.end());
    totals.erase(std::unique(totals.begin(), totals.end()), totals.end());
    return totals;
}

void require_output_name(const std::string& out) {
    if (out.size() > 5 && out.ends_with(".json")) return;
    throw Error(ErrorCode::usage, "--out", fmt::format("'{}' does not end in .json", out),
                "SGLang takes any other name for JSON text");
}

}  // namespace

std::string_view name_of(Objective objective) {
    return key_of(objectives, objective);
}
std::string_view name_of(Effort effort) {
    return key_of(efforts, effort);
}

FitOptions parse_options(int argc, char** argv) {
    FitOptions options;
    std::string holdout = "interleave", policy = "search";
    std::optional<Objective> objective;
    std::optional<Effort> effort;
    std::vector<std::string> curve;
    std::string policy_help = "How to fit:";
    for (const FitPolicy& entry : fit_policies()) policy_help += fmt::format("\n  {}: {}", entry.name, entry.summary);

    CLI::App app("Fits a layout to expert counts and scores it on record slots that were held out.", "eplb-fit");
    cli::add_count_options(app, options.counts, "COUNTS")->required();
    app.add_option("--ranks", options.ranks, "Expert-parallel ranks")
        ->required()
        ->check(cli::whole_number_from(1, max_ranks));
    const auto slots = "Physical slots (exactly one)";
    app.add_option("--redundant-total", options.budget.redundant_total,
                   "Redundant slots of a layer in total, as SGLang and vLLM count them")
        ->check(cli::non_negative_number())
        ->group(slots);
    app.add_option("--redundant-per-rank", options.budget.redundant_per_rank,
                   "Redundant slots of a layer on each rank, as xLLM counts them")
        ->check(cli::non_negative_number())
        ->group(slots);
    app.add_option("--slots-per-rank", options.budget.slots_per_rank, "All slots of a layer on each rank")
        ->check(cli::positive_number())
        ->group(slots);
    app.add_option("--out", options.out, "Layout file to write, X.json; the manifest goes to X.manifest.json");
    app.add_flag("--force", options.force, "Replace existing outputs");
    app.add_option("--policy", policy, policy_help)->capture_default_str();
    cli::add_choice(
        app, "--objective", objective, objectives,
        fmt::format("What policy search makes small: step or window (default: {})", name_of(default_objective)));
    cli::add_choice(app, "--effort", effort, efforts, "How long policy search looks: fast, default or thorough");
    std::string dispatch = "even";
    CLI::Option* dispatch_option =
        app.add_option("--dispatch", dispatch,
                       "Fit for the rule that will pick the replicas: a model of eplb-score --dispatch, or balanced, "
                       "which also makes a dispatch table, X.dispatch.npy")
            ->capture_default_str();
    app.add_option("--engine-version", options.dispatch.engine_version,
                   "Release of SGLang, or the date of its newest commit, for --dispatch auto and sglang-dynamic")
        ->needs(dispatch_option);
    app.add_option("--nodes", options.dispatch.nodes, "Hosts that the ranks are spread over")
        ->check(cli::whole_number_from(1, max_ranks))
        ->needs(dispatch_option);
    app.add_option("--tp", options.dispatch.tensor_parallel, "Tensor-parallel size (vllm-ascend)")
        ->check(cli::whole_number_from(1, max_ranks))
        ->needs(dispatch_option);
    app.add_option("--holdout", holdout,
                   "How the non-zero record slots are split: interleave, halves, last (the newest, where their order "
                   "is known) or none")
        ->capture_default_str();
    app.add_flag("--refit-all", options.refit_all, "Write a layout fitted on all record slots after scoring the split");
    app.add_option("--seed", options.seed, "Seed of every random choice")
        ->check(cli::whole_number_from(0, std::numeric_limits<std::int64_t>::max()))
        ->capture_default_str();
    CLI::Option* current =
        app.add_option("--current", options.current,
                       "Layout in service, a file or trivial: compare with it, keep its rows and slots where "
                       "possible");
    app.add_option("--min-gain", options.min_gain,
                   "Keep a layer's current row when its step value falls by less than this ratio")
        ->check(cli::number_between(0.0, 1.0))
        ->needs(current)
        ->capture_default_str();
    app.add_option("--redundancy-curve", curve, "Also fit these total redundancies and compare, e.g. 0,R,2R (R: ranks)")
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_option("--bytes-per-expert", options.bytes_per_expert, "Weights of one expert of one layer, in bytes")
        ->check(cli::whole_number_from(1, std::numeric_limits<std::int64_t>::max()));
    app.add_option("--scenario", options.scenario, "JSON file that says what the counts were collected under");
    cli::add_common_options(app, options.common,
                            "  eplb-fit counts.pt --ranks 32 --redundant-total 32 --out layout.json\n"
                            "  eplb-fit counts.pt --ranks 32 --redundancy-curve 0,R,2R --bytes-per-expert 44040192");
    cli::parse(app, argc, argv);

    const auto refuse = [](std::string what, std::string hint) {
        throw Error(ErrorCode::usage, "", std::move(what), std::move(hint));
    };
    options.policy = &find_fit_policy(policy);
    options.holdout = parse_holdout(holdout);
    options.redundancy_curve = curve_of(curve, options.ranks);
    if (!options.policy->obeys_objective && (objective || effort)) {
        refuse(fmt::format("--{} goes with --policy search, not with {}", objective ? "objective" : "effort", policy),
               "drop one of the two");
    }
    options.dispatch.names = {dispatch};
    if (dispatch == "table") refuse("--dispatch table is no rule to fit for", "balanced makes a table");
    if (makes_table(options)) {
        resolve_dispatch(options.dispatch.names, options.dispatch.engine_version);
    } else {
        settle_dispatch_options(options.dispatch);
    }
    if (dispatch != "even") {
        if (!options.policy->obeys_objective) {
            refuse(fmt::format("--dispatch goes with --policy search, not with {}", policy), "drop one of the two");
        }
        if (options.current) {
            refuse("--current does not go with --dispatch: naming ranks after it changes what a rule sends where",
                   "fit without --current, then count what moves with eplb-load check --current");
        }
    }
    options.objective = objective.value_or(default_objective);
    options.effort = effort.value_or(Effort::standard);
    const int budgets = options.budget.redundant_total.has_value() + options.budget.redundant_per_rank.has_value() +
                        options.budget.slots_per_rank.has_value();
    if (budgets > 1) refuse("more than one of --redundant-total, --redundant-per-rank, --slots-per-rank", "give one");
    if (options.out.empty()) {
        if (options.redundancy_curve.empty()) refuse("--out is missing", "or compare with --redundancy-curve LIST");
        if (budgets > 0) refuse("a number of slots was given, but no --out", "give --out X.json");
    } else {
        require_output_name(options.out);
        if (budgets == 0) {
            refuse("the number of slots is not given",
                   "give --redundant-total, --redundant-per-rank or --slots-per-rank");
        }
    }
    return options;
}

const std::string& dispatch_name(const FitOptions& options) {
    return options.dispatch.names.front();
}
bool makes_table(const FitOptions& options) {
    return dispatch_name(options) == "balanced";
}

std::string canonical_command_line(const FitOptions& options) {
    std::string line = "eplb-fit";
    for (const std::string& file : options.counts.files) line += " " + base_name(file);
    const auto add = [&](std::string_view flag, const auto& value) { line += fmt::format(" --{} {}", flag, value); };
    const auto add_given = [&](std::string_view flag, const auto& value) {
        if (value) add(flag, *value);
    };
    const CountOptions& counts = options.counts;
    add_given("format", counts.format);
    add_given("dataset", counts.dataset);
    if (counts.axes) add("axes", axes_text(*counts.axes));
    add_given("layers", counts.layers);
    add_given("experts", counts.experts);
    if (counts.dense_layers && !counts.model_config) add("dense-layers", counts.dense_layers->text());
    for (const auto& [flag, choices] : {std::pair{"drop-slots", &counts.selection.drop_slots},
                                        std::pair{"take-slots", &counts.selection.take_slots}}) {
        for (const SlotChoice& choice : *choices) add(flag, base_name(choice.text));
    }
    if (counts.selection.drop_layers) add("drop-layers", counts.selection.drop_layers->text());
    if (counts.selection.take_layers) add("take-layers", counts.selection.take_layers->text());
    add_given("top-k", counts.top_k);
    add_given("expect-total", counts.expect_total);
    for (const std::string& code : counts.accepted) add("accept", code);
    if (counts.reduction != Reduction::unknown) add("reduction", name_of(counts.reduction));
    add_given("recorded-ranks", counts.recorded_ranks);
    if (counts.recorded_layout) add("recorded-layout", base_name(*counts.recorded_layout));
    add_given("tokens-per-slot", counts.tokens_per_slot);
    if (counts.pt_reader == PtReader::libtorch) add("pt-reader", "libtorch");
    if (counts.cross_check_libtorch) add("cross-check", "libtorch");
    add("ranks", options.ranks);
    add_given("redundant-total", options.budget.redundant_total);
    add_given("redundant-per-rank", options.budget.redundant_per_rank);
    add_given("slots-per-rank", options.budget.slots_per_rank);
    add("policy", options.policy->name);
    if (options.policy->obeys_objective) {
        add("objective", name_of(options.objective));
        add("effort", name_of(options.effort));
    }
    if (dispatch_name(options) != "even") {
        add("dispatch", dispatch_name(options));
        add_given("nodes", options.dispatch.nodes);
        if (options.dispatch.tensor_parallel > 1) add("tp", options.dispatch.tensor_parallel);
    }
    add("holdout", name_of(options.holdout));
    if (options.refit_all) line += " --refit-all";
    add("seed", options.seed);
    if (options.current) {
        add("current", base_name(*options.current));
        add("min-gain", options.min_gain);
    }
    if (options.scenario) add("scenario", base_name(*options.scenario));
    return line;
}

}  // namespace eplb
