#include "options.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "cli/options.hpp"
#include "core/error.hpp"

namespace eplb {
namespace {

std::string format_of(const std::string& path) {
    const std::string ending = std::filesystem::path(path).extension().string();
    if (ending == ".pt" || ending == ".npy" || ending == ".h5") return ending.substr(1);
    throw Error(ErrorCode::usage, path, fmt::format("the ending \"{}\" names no format to write", ending),
                "use .pt, .npy or .h5");
}

std::string preset_lines() {
    std::string lines = "Preset whose values the other flags replace:";
    for (const SamplePreset& preset : sample_presets()) lines += fmt::format("\n{}: {}", preset.name, preset.summary);
    return lines;
}

}  // namespace

SampleOptions parse_options(int argc, char** argv) {
    SampleOptions options;
    std::string preset = "deepseek-v3";
    SampleSpec& spec = options.spec;
    CLI::App app("Makes up expert counts that behave like a server's, to try the tools without one.", "eplb-sample");
    app.add_option("--preset", preset, preset_lines())->capture_default_str();
    const CLI::Option* record_slots = app.add_option("--record-slots", spec.record_slots, "Record slots of the file");
    const CLI::Option* filled_slots =
        app.add_option("--filled-slots", spec.filled_slots,
                       "Record slots with counts; the others stay zero (with --record-slots: all)");
    app.add_option("--layers", spec.layers, "Layers of the file, dense layers included");
    app.add_option("--dense-layers", spec.dense_layers, "Leading layers without experts: their counts are zero");
    app.add_option("--experts", spec.experts, "Logical experts of a layer");
    app.add_option("--top-k", spec.top_k, "Experts each token is routed to");
    app.add_option("--ranks", spec.ranks, "Expert-parallel ranks of the trivial layout");
    app.add_option("--slots-per-rank", spec.slots_per_rank, "Physical slots a rank of the trivial layout");
    app.add_option("--trivial-balance", spec.trivial_balance,
                   "Window max/mean that the trivial layout should have (median over the layers)");
    app.add_option("--tokens", spec.tokens, "Tokens in an average record slot");
    app.add_option("--topics", spec.topics, "Latent topics that the record slots mix");
    app.add_option("--seed", spec.seed, "Seed; the same flags and seed give the same bytes");
    app.add_option("--out", options.out, "File to write: .pt as SGLang's recorder saves it, .npy or .h5")->required();
    app.add_flag("--force", options.force, "Replace the file if it exists");
    cli::add_common_options(app, options.common,
                            "  eplb-sample --preset decode --out counts.pt\n"
                            "  eplb-sample --record-slots 64 --layers 8 --dense-layers 0 --seed 7 --out counts.h5");
    cli::parse(app, argc, argv);
    spec = find_sample_preset(preset).spec;
    cli::parse(app, argc, argv);  // once more, now that the preset is known: the given flags replace its values
    // A preset's number of filled record slots belongs to the preset's number of record slots.
    if (record_slots->count() > 0 && filled_slots->count() == 0) spec.filled_slots = spec.record_slots;
    options.format = format_of(options.out);
    require_sensible(spec);
    return options;
}

}  // namespace eplb
