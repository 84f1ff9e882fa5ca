// The gate in front of every fit and score: is this count file what it claims to be?
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/count_code.hpp"
#include "check/count_statistics.hpp"
#include "core/count_options.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"
#include "core/window_facts.hpp"

namespace eplb {

struct CountReport {
    std::string path;
    int record_slots = 0, layers = 0, experts = 0;
    Reduction reduction = Reduction::unknown;   // what the format says by definition, else what the user says
    std::optional<CountStatistics> statistics;  // absent when a value is no count or the tensor has no element
    std::optional<WindowFacts> window;          // as given to check_counts
    LeftOut left_out;                // by the flags of CountOptions::selection; `statistics` are without them
    std::optional<int> top_k_guess;  // only where the totals leave no other reading
    double alternate_variation = 0;  // median_variation() between alternate record slots; of one of several files
    std::vector<Finding> findings;   // most severe first

    bool ok() const { return !any_at_least(findings, Severity::error); }
};

// Runs the checks of the table on one decoded file, in which the rows that `options` leave out are zero; on one rank's
// share of a window only those that hold for a share. `by_format`: the reduction that the file's format defines,
// unknown where it says nothing. `window`: what a sidecar or the format knows of the window. Never throws for what the
// values are: that is what findings are for.
CountReport check_counts(const std::string& path, const Tensor& tensor, Reduction by_format,
                         const CountOptions& options, std::optional<WindowFacts> window = std::nullopt);

// The checks of a whole window on the sum over its ranks, whose shares were checked one by one. `window`: what is known
// of the passes that were summed.
CountReport check_summed_counts(const Tensor& sum, const CountOptions& options,
                                std::optional<WindowFacts> window = std::nullopt);

// What only the files together can show: other geometry, the same content twice, unstated reduction, and whether
// per-rank files are one whole window.
std::vector<Finding> check_counts_together(std::span<const CountReport> reports, const CountOptions& options);

// Codes that check_counts_together may give; the others are in the table of count_check.hpp.
std::span<const CountCode> across_files_codes();

// Most severe first, otherwise as they were.
void sort_by_severity(std::vector<Finding>& findings);

}  // namespace eplb
