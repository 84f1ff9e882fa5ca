#include "cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <CLI/CLI.hpp>
#include <span>

#include "cli/app.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"

namespace eplb::cli {

std::string version_line(const std::string& program) {
    return fmt::format("{} {} ({})", program, version(), commit());
}

void add_common_options(CLI::App& app, CommonOptions& options, const std::string& examples) {
    app.add_flag("--json", options.json, "One JSON object on stdout and nothing else");
    app.add_option("--threads", options.threads, "Threads to use; results do not depend on it (default: all cores)")
        ->check(whole_number_from(1, 1024));
    app.add_flag("-v,--verbose", options.verbosity, "More detail; may be repeated");
    app.set_version_flag("--version", version_line(app.get_name()));
    app.footer("Examples:\n" + examples);
}

namespace {

// A number alone is one of leading layers.
IndexList parse_dense_layers(const std::string& text) {
    const IndexList list = IndexList::parse("--dense-layers", text);
    return text.find_first_not_of("0123456789") == std::string::npos ? IndexList::below(list.largest()) : list;
}

void add_selection_options(CLI::App& app, Selection& selection, const std::string& group) {
    const auto add_slots = [&](const char* flag, std::vector<SlotChoice>& choices, const char* help) {
        app.add_option_function<std::vector<std::string>>(
               flag,
               [flag, &choices](const std::vector<std::string>& texts) {
                   for (const std::string& text : texts) choices.push_back(parse_slot_choice(flag, text));
               },
               help)
            ->allow_extra_args(false)
            ->type_name("[FILE:]LIST")
            ->group(group);
    };
    const auto add_layers = [&](const char* flag, std::optional<IndexList>& layers, const char* help) {
        app.add_option_function<std::string>(
               flag, [flag, &layers](const std::string& text) { layers = IndexList::parse(flag, text); }, help)
            ->type_name("LIST")
            ->group(group);
    };
    add_slots("--drop-slots", selection.drop_slots,
              "Record slots to leave out, as 0-3,17; with several files FILE:LIST; may be repeated");
    add_slots("--take-slots", selection.take_slots, "Record slots to use, leaving out the others of the file");
    add_layers("--drop-layers", selection.drop_layers, "Layers to leave out: their rows count as zero, and as stated");
    add_layers("--take-layers", selection.take_layers, "Layers to use, leaving out the others: a pipeline stage");
}

}  // namespace

CLI::Option* add_count_options(CLI::App& app, CountOptions& options, const std::string& files_name) {
    CLI::Option* files =
        app.add_option(files_name, options.files,
                       "Count files of any format that is read, folders, or patterns in quotes; - is stdin");
    const auto group = "Reading the counts";
    app.add_option("--format", options.format, "Format of the files, instead of looking at their content")
        ->group(group);
    app.add_option("--dataset", options.dataset, "HDF5 data set that holds the counts")->group(group);
    app.add_option_function<std::string>(
           "--axes", [&options](const std::string& list) { options.axes = parse_count_axes(list); },
           "What the axes of the arrays are, in their order, when it is not slots,layers,experts: for example "
           "layers,slots,experts or, for one record slot, experts,layers")
        ->group(group);
    app.add_option("--layers", options.layers, "Layers the counts must have")
        ->check(whole_number_from(1, max_layers))
        ->group(group);
    app.add_option("--experts", options.experts, "Logical experts the counts must have")
        ->check(whole_number_from(1, max_experts))
        ->group(group);
    app.add_option_function<std::string>(
           "--dense-layers", [&options](const std::string& text) { options.dense_layers = parse_dense_layers(text); },
           "Layers without experts, whose rows must be zero: a number of leading ones, or a list such as 0-46/2")
        ->type_name("N|LIST")
        ->group(group);
    add_selection_options(app, options.selection, group);
    app.add_option("--top-k", options.top_k, "Experts each token is routed to")->check(positive_number())->group(group);
    app.add_option("--expect-total", options.expect_total, "Sum of all counts that the load should have produced")
        ->check(whole_number_from(0, std::numeric_limits<std::int64_t>::max()))
        ->group(group);
    app.add_option("--accept", options.accepted,
                   "Finding code whose errors count as warnings, for example LAYER_TOTAL_MISMATCH; may be repeated")
        ->allow_extra_args(false)
        ->group(group);
    add_choice<Reduction, Reduction>(app, "--reduction", options.reduction,
                                     {{"reduced", Reduction::reduced}, {"per-rank", Reduction::per_rank}},
                                     "Are the counts already summed over the ranks: reduced or per-rank")
        ->group(group);
    app.add_option(
           "--recorded-ranks", options.recorded_ranks,
           "Ranks that counted, a file each (default: the files, where their ranks are 0, 1, ... without a gap)")
        ->check(whole_number_from(1, max_ranks))
        ->group(group);
    app.add_option("--recorded-layout", options.recorded_layout,
                   "Layout that was in force while counts of physical slots were recorded")
        ->group(group);
    app.add_option("--tokens-per-slot", options.tokens_per_slot,
                   "With --format routed-ids: tokens that make up a record slot (default 256)")
        ->check(positive_number())
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

CLI::Validator whole_number_from(std::int64_t least, std::int64_t most) {
    const auto complaint = [least, most](const std::string& text) -> std::string {
        std::int64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        if (stop != end || error == std::errc::invalid_argument) return fmt::format("'{}' is no whole number", text);
        if (error == std::errc() && value >= least && value <= most) return "";
        return fmt::format("{} is outside {} to {}", text, least, most);
    };
    if (most == std::numeric_limits<int>::max() && least <= 1)
        return {complaint, least == 1 ? "POSITIVE" : "NONNEGATIVE"};
    return {complaint, fmt::format("{}..{}", least, most)};
}

CLI::Validator number_between(double least, double most) {
    const auto complaint = [least, most](const std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is no number", text);
        return value >= least && value <= most ? "" : fmt::format("{} is outside {} to {}", text, least, most);
    };
    return {complaint, fmt::format("{}..{}", least, most)};
}

namespace {

// Letters to insert, remove, replace or swap with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                distance[i][j] = i + j;
                continue;
            }
            distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                                       distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
            }
        }
    }
    return distance[a.size()][b.size()];
}

// The known name that was probably meant; empty when none is near.
std::string nearest(const std::string& wrong, const std::vector<std::string>& known) {
    std::string best;
    std::size_t least = 1 + std::max<std::size_t>(1, wrong.size() / 4);
    for (const std::string& name : known) {
        const bool begins = wrong.size() >= 3 && name.starts_with(wrong);
        const std::size_t distance = begins ? 1 : edit_distance(wrong, name);
        if (distance >= least) continue;
        least = distance;
        best = name;
    }
    return best;
}

std::vector<std::string> long_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back(name);
    }
    return names;
}

// "eplb-load check" for a subcommand.
std::string full_name(const CLI::App& app) {
    return app.get_parent() ? fmt::format("{} {}", app.get_parent()->get_name(), app.get_name()) : app.get_name();
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const std::string& what, const std::string& suggestion) {
    throw Error(ErrorCode::usage, "", what,
                suggestion.empty() ? fmt::format("see {} --help", full_name(app))
                                   : fmt::format("did you mean {}?", suggestion));
}

// What follows a flag as its value, whatever it looks like.
bool takes_next_word(const CLI::Option& option, const std::string& word) {
    return option.get_items_expected_min() > 0 && word.find('=') == std::string::npos;
}

const CLI::App& subcommand(const CLI::App& app, const std::string& word) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->get_name() == word) return *command;
        names.push_back(command->get_name());
    }
    refuse_unknown(app, fmt::format("{} has no subcommand '{}'", app.get_name(), word), nearest(word, names));
}

// CLI11 complains of what is missing before it complains of what it does not know, and a misspelt flag is both.
void refuse_unknown_words(const CLI::App& app, std::span<char* const> words) {
    const CLI::App* command = &app;
    const bool has_subcommands = app.get_require_subcommand_min() > 0;
    for (std::size_t index = 0; index < words.size(); ++index) {
        const std::string word = words[index];
        if (word == "--") return;
        if (has_subcommands && command == &app && !word.starts_with('-')) command = &subcommand(app, word);
        if (!word.starts_with("--") || word == "--help") continue;
        const std::string name = word.substr(2, word.find('=') == std::string::npos ? word.npos : word.find('=') - 2);
        const CLI::Option* option = command->get_option_no_throw("--" + name);
        if (option) {
            if (takes_next_word(*option, word)) ++index;
            continue;
        }
        const std::string near = nearest(name, long_names(*command));
        refuse_unknown(*command, fmt::format("--{} is no flag of {}", name, full_name(*command)),
                       near.empty() ? "" : "--" + near);
    }
}

}  // namespace

void parse(CLI::App& app, int argc, char** argv) {
    refuse_unknown_words(app, std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
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
