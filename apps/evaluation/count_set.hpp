// The count files of one command line, read and checked one by one and together: what eplb-validate shows and what
// eplb-fit and eplb-score go on with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/counts.hpp"
#include "core/count_options.hpp"
#include "core/error.hpp"
#include "core/finding.hpp"
#include "core/rank_sum.hpp"
#include "counts_io/count_file.hpp"

namespace eplb {

struct CheckedFile {
    std::string path;
    std::optional<Error> undecodable;   // why there is neither `file` nor `report`
    std::optional<std::string> sha256;  // absent when the file cannot be opened
    std::optional<std::int64_t> bytes;  // as sha256
    std::optional<CountFile> file;
    std::optional<CountReport> report;  // without findings
    std::vector<Finding> findings;      // of the reader and of the checks, most severe first
};

// The ranks of one window, summed.
struct SummedRanks {
    Tensor counts;        // [passes that all ranks have, layers, experts]
    CommonPasses passes;  // shares in the order of the files
    CountReport report;   // of the whole window, without findings
};

struct CheckedSet {
    std::vector<CheckedFile> files;  // in command-line order
    std::vector<Finding> findings;   // across files and of the sum, most severe first
    std::optional<SummedRanks> sum;  // absent: the files are windows of their own, or no complete set of ranks
};

// Throws Error{usage} when there is no file, for a format that does not exist, and for codes that cannot be accepted. A
// file that cannot be decoded is told by the result.
CheckedSet check_count_files(const CountOptions& options, int threads);

}  // namespace eplb
