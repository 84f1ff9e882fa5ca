#include "run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/app.hpp"
#include "cli/progress_bar.hpp"
#include "core/build_info.hpp"
#include "core/printable.hpp"
#include "core/tensor_view.hpp"
#include "counts_io/count_file.hpp"
#include "files/json_text.hpp"
#include "files/output.hpp"
#include "sample/generator.hpp"

namespace eplb {
namespace {

void write_counts(const Sample& sample, const SampleOptions& options) {
    const SampleSpec& spec = sample.spec;
    OutputSet output(options.force);
    output.add(options.out,
               encode_counts(options.format, view_of(sample.counts, {spec.record_slots, spec.layers, spec.experts})));
    output.commit();
}

std::string json_report(const Sample& sample, const SampleOptions& options) {
    const SampleSpec& spec = sample.spec;
    nlohmann::ordered_json report;
    report["tool"] = "eplb-sample";
    report["version"] = version();
    report["file"] = options.out;
    report["format"] = options.format;
    report["shape"] = {spec.record_slots, spec.layers, spec.experts};
    report["total"] = sample.total;
    report["record_slots"] = {{"total", spec.record_slots}, {"nonzero", spec.filled_slots}};
    report["dense_layers"] = spec.dense_layers;
    report["top_k"] = spec.top_k;
    report["tokens"] = spec.tokens;
    report["topics"] = spec.topics;
    report["seed"] = spec.seed;
    report["ranks"] = spec.ranks;
    report["slots_per_rank"] = spec.slots_per_rank;
    report["trivial_window_max_over_mean"] = sample.trivial_balance;
    return json_text(report);
}

std::string text_report(const Sample& sample, const SampleOptions& options) {
    const SampleSpec& spec = sample.spec;
    std::string text = fmt::format(
        "{}: made-up counts [{} record slots, {} layers, {} experts]; filled record slots: {}, dense layers: {}, "
        "total: {}\n"
        "The trivial layout on {} ranks x {} slots has window max/mean {:.4f} (median over the MoE layers).\n",
        printable(options.out), spec.record_slots, spec.layers, spec.experts, spec.filled_slots, spec.dense_layers,
        sample.total, spec.ranks, spec.slots_per_rank, sample.trivial_balance);
    if (options.common.verbosity > 0) {
        text += fmt::format("About {} tokens a record slot, top-{}, {} topics, seed {}, format {}.\n", spec.tokens,
                            spec.top_k, spec.topics, spec.seed, options.format);
    }
    return text + fmt::format("Next: eplb-validate {}\n", printable(options.out));
}

}  // namespace

int run(const SampleOptions& options) {
    require_writable(options.out, options.force);
    const Sample sample = generate(options.spec, options.common.thread_count(), cli::progress_bar("making counts"));
    write_counts(sample, options);
    cli::print(options.common.json ? json_report(sample, options) : text_report(sample, options));
    return 0;
}

}  // namespace eplb
