// What a check of a count file is given, and the table of checks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/count_code.hpp"
#include "check/count_statistics.hpp"
#include "core/count_options.hpp"
#include "core/error.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"
#include "core/window_facts.hpp"

namespace eplb {

struct CountContext {
    const std::string& path;            // as given, "-" is stdin
    const Tensor& tensor;               // [record slots, layers, experts]
    const CountOptions& options;        // what the user knows about the file
    Reduction reduction;                // what the format says by definition, else what the user says
    bool reduced_by_format;             // the format defines its counts as reduced
    const CountStatistics& statistics;  // empty before stage `sums`
    const LeftOut& left_out;            // rows of the tensor that the user left out: they are zero
    const WindowFacts* window;          // what a sidecar or the format knows of the window, else null
    bool alone;                         // these counts are all there are; else others of the command line go with them
    bool summed;                        // they are the sum over the files of a window's ranks
    const Error* refused;               // stage `values`: why no statistics could be gathered, else null
};

// What a check can rely on. The stages run in this order; an error finding of a gate ends the run.
enum class CheckStage {
    raw,     // nothing but the name and the flags
    shape,   // as raw. A gate: are the axes sound?
    axes,    // three sound axes
    values,  // as axes. A gate: is every value a count?
    sums,    // statistics. A gate: is there anything to look at?
    traffic  // statistics with at least one count
};

// What must hold of one rank's share of a window too, and what only holds of the whole window: a rank may count what it
// received, or nothing, so totals, divisors and repeats of a share mean nothing.
enum class CheckSubject { file, window };

struct CountCheck {
    CheckStage stage;
    CheckSubject subject;
    std::vector<CountCode> codes;  // every finding code that run() may give
    std::string_view summary;      // one line for docs
    std::vector<Finding> (*run)(const CountContext& context);
};

// In the order in which they run.
std::span<const CountCheck> count_checks();

}  // namespace eplb
