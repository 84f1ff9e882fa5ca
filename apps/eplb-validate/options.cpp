#include "options.hpp"

#include <fmt/format.h>

#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"

namespace eplb {
namespace {

std::string target_help() {
    std::string text = "Engine that will read the layout:";
    for (const LayoutTarget& target : layout_targets()) text += fmt::format(" {} ({}),", target.name, target.summary);
    text.back() = ' ';
    return text + "default sglang";
}

}  // namespace

ValidateOptions parse_options(int argc, char** argv) {
    ValidateOptions options;
    std::string target = "sglang";
    CLI::App app(
        "Says whether expert counts can be trusted, or whether a layout is legal and made for this deployment.\n"
        "Exit code 0: yes. 1: no. 3: a file cannot be decoded at all.",
        "eplb-validate");
    CLI::Option* files = cli::add_count_options(app, options.counts, "FILE");
    app.add_option("--ranks", options.counts.ranks, "Expert-parallel ranks that a layout is for")
        ->check(cli::whole_number_from(1, max_ranks));
    app.add_flag("--strict", options.strict, "Warnings also make the answer no");

    const auto group = "Validating a layout";
    CLI::Option* layout =
        app.add_option("--layout", options.layout, "Layout file (physical_to_logical_map JSON) instead of counts")
            ->group(group);
    app.add_option("--nodes", options.nodes, "Hosts that the ranks are spread over")
        ->check(cli::whole_number_from(1, max_ranks))
        ->group(group)
        ->needs(layout);
    app.add_option("--redundant-total", options.redundant_total,
                   "Redundant experts that the server is told (--ep-num-redundant-experts)")
        ->check(cli::non_negative_number())
        ->group(group)
        ->needs(layout);
    app.add_option("--dispatch-table", options.dispatch_table, "Dispatch table (.npy or .json) made for the layout")
        ->group(group)
        ->needs(layout);
    app.add_option("--target", target, target_help())->group(group)->needs(layout);
    files->excludes(layout);
    for (const char* name :
         {"--format", "--dataset", "--axes", "--dense-layers", "--drop-slots", "--take-slots", "--drop-layers",
          "--take-layers", "--top-k", "--expect-total", "--accept", "--reduction", "--recorded-ranks",
          "--recorded-layout", "--tokens-per-slot", "--pt-reader", "--cross-check"}) {
        app.get_option(name)->excludes(layout);
    }
    cli::add_common_options(app, options.common,
                            "  eplb-validate expert_distribution_recorder_*.pt --top-k 6\n"
                            "  eplb-validate --layout layout.json --ranks 32 --redundant-total 32 --nodes 4");
    cli::parse(app, argc, argv);

    options.target = &find_layout_target(target);
    if (!options.layout && options.counts.files.empty()) {
        throw Error(ErrorCode::usage, "", "no file was given", "give count files, or --layout FILE");
    }
    return options;
}

}  // namespace eplb
