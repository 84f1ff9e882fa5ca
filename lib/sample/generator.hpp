// Made-up expert counts that behave like a server's: for demonstrations, documentation, tests and benchmarks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/progress.hpp"
#include "sample/spec.hpp"

namespace eplb {

struct Sample {
    SampleSpec spec;
    std::vector<std::int32_t> counts;  // [record slots, layers, experts]
    std::int64_t total = 0;            // sum of the counts
    double trivial_balance = 1.0;      // window max/mean of the trivial layout on them, median over the MoE layers
};

// Deterministic: the same spec gives the same counts on any number of threads, compiler and machine. Inside a record
// slot every MoE layer has the same total, tokens x top-k, and no expert has more than the slot's tokens.
// threads >= 1. Throws what require_sensible throws, Error{usage} when no expert popularity reaches
// spec.trivial_balance, and Interrupted.
Sample generate(const SampleSpec& spec, int threads, const Progress& progress);

}  // namespace eplb
