#include "cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/app.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"

namespace eplb::cli {

std::string version_line(const std::string& program) {
    return fmt::format("{} {} ({})", program, version(), commit());
}

void add_common_options(CLI::App& app, CommonOptions& options, const std::string& examples) {
    app.add_flag("--json", options.json, "One JSON object on stdout and nothing else");
    app.add_option("--threads", options.threads, "Threads to use; results do not depend on it (default: all cores)")
        ->check(CLI::Range(1, 1024));
    app.add_flag("-v,--verbose", options.verbosity, "More detail; may be repeated");
    app.set_version_flag("--version", version_line(app.get_name()));
    app.footer("Examples:\n" + examples);
}

CLI::Option* add_count_options(CLI::App& app, CountOptions& options, const std::string& files_name) {
    CLI::Option* files =
        app.add_option(files_name, options.files,
                       "Count files of any format that is read, folders, or patterns in quotes; - is stdin");
    const auto group = "Reading the counts";
    app.add_option("--format", options.format, "Format of the files, instead of looking at their content")
        ->group(group);
    app.add_option("--dataset", options.dataset, "HDF5 data set that holds the counts")->group(group);
    app.add_option("--layers", options.layers, "Layers the counts must have")->check(CLI::PositiveNumber)->group(group);
    app.add_option("--experts", options.experts, "Logical experts the counts must have")
        ->check(CLI::PositiveNumber)
        ->group(group);
    app.add_option("--dense-layers", options.dense_layers, "Leading layers without experts: their rows must be zero")
        ->check(CLI::NonNegativeNumber)
        ->group(group);
    app.add_option("--top-k", options.top_k, "Experts each token is routed to")
        ->check(CLI::PositiveNumber)
        ->group(group);
    app.add_option("--expect-total", options.expect_total, "Sum of all counts that the load should have produced")
        ->check(CLI::NonNegativeNumber)
        ->group(group);
    add_choice<Reduction, Reduction>(app, "--reduction", options.reduction,
                                     {{"reduced", Reduction::reduced}, {"per-rank", Reduction::per_rank}},
                                     "Are the counts already summed over the ranks: reduced or per-rank")
        ->group(group);
    app.add_option(
           "--recorded-ranks", options.recorded_ranks,
           "Ranks that counted, a file each (default: the files, where their ranks are 0, 1, ... without a gap)")
        ->check(CLI::PositiveNumber)
        ->group(group);
    app.add_option("--recorded-layout", options.recorded_layout,
                   "Layout that was in force while counts of physical slots were recorded")
        ->group(group);
    app.add_option("--tokens-per-slot", options.tokens_per_slot,
                   "With --format routed-ids: tokens that make up a record slot (default 256)")
        ->check(CLI::PositiveNumber)
        ->group(group);
    add_choice<PtReader, PtReader>(app, "--pt-reader", options.pt_reader,
                                   {{"native", PtReader::native}, {"libtorch", PtReader::libtorch}},
                                   "Reader for .pt files: native (default) or libtorch")
        ->group(group);
    app.add_option_function<std::string>(
           "--cross-check", [&options](const std::string&) { options.cross_check_libtorch = true; },
           "Read .pt files a second time with another reader and compare: libtorch")
        ->check(CLI::IsMember({"libtorch"}))
        ->group(group);
    return files;
}

void parse(CLI::App& app, int argc, char** argv) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        throw PrintAndExit{app.help()};
    } catch (const CLI::CallForAllHelp&) {
        throw PrintAndExit{app.help("", CLI::AppFormatMode::All)};
    } catch (const CLI::CallForVersion& version) {
        throw PrintAndExit{std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
        throw Error(ErrorCode::usage, "", error.what(), fmt::format("see {} --help", app.get_name()));
    }
}

}  // namespace eplb::cli
