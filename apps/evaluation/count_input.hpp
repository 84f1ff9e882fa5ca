// The counts of one command line, without an error, as one tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "check/counts.hpp"
#include "check/expected_layers.hpp"
#include "core/count_options.hpp"
#include "core/counts.hpp"
#include "core/finding.hpp"
#include "core/record_split.hpp"
#include "counts_io/count_file.hpp"

namespace eplb {

struct CountInput {
    std::vector<CountFile> files;      // in command-line order
    std::vector<CountReport> reports;  // of each file, with its findings
    std::vector<Finding> findings;     // across files and of their sum

    // Record slots of all files one after the other; or, where the files are the ranks of one window, the sum over the
    // files of the passes that all of them have.
    Counts counts;
    bool summed_over_files = false;
    std::vector<std::vector<int>> slot_in_counts;  // [file][record slot of the file]; -1: left out
    std::vector<int> filled;                       // record slots of `counts` with a non-zero total, ascending
    LeftOut left_out;                              // by the flags: record slots and layers of `counts`
    ExpectedLayers layers;         // those with counts in any record slot, and those that should have them
    std::vector<int> first_equal;  // [filled]: the position there of the first record slot with the same counts
};

// Throws Error{input} when a file cannot be decoded, or with the first error finding. Throws Error{usage} when there is
// no file.
CountInput load_counts(const CountOptions& options, int threads);

// The split of the non-zero record slots. Throws Error{usage} for `last` where nothing tells the order of the record
// slots: that needs the sidecar of a recorder, or a per-pass dump, and one window.
RecordSplit split_counts(const CountInput& input, Holdout holdout);

}  // namespace eplb
