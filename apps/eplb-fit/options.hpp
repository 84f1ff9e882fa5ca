// The flags of eplb-fit, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common_options.hpp"
#include "core/count_options.hpp"
#include "core/record_split.hpp"
#include "evaluation/dispatch_input.hpp"
#include "fit/problem.hpp"

namespace eplb {

// How many physical slots: exactly one is given.
struct SlotBudget {
    std::optional<int> redundant_total, redundant_per_rank, slots_per_rank;

    bool given() const { return redundant_total || redundant_per_rank || slots_per_rank; }
};

struct FitOptions {
    cli::CommonOptions common;
    CountOptions counts;
    int ranks = 0;
    SlotBudget budget;
    std::string out;  // empty: nothing is written (--redundancy-curve alone)
    bool force = false;

    const FitPolicy* policy = nullptr;
    DispatchOptions dispatch;  // one name: the rule that will pick the replicas
    Objective objective = Objective::step;
    Effort effort = Effort::standard;
    std::uint64_t seed = 0;
    Holdout holdout = Holdout::interleave;
    bool refit_all = false;

    std::optional<std::string> current;  // layout in service
    double min_gain = 0.05;              // of a layer, below which its current row is kept
    std::vector<int> redundancy_curve;   // total redundancies, ascending, each once, 0 included; empty: no curve
    std::optional<std::int64_t> bytes_per_expert;
    std::optional<std::string> scenario;
};

// The one dispatch, and whether the fit makes a table for it.
const std::string& dispatch_name(const FitOptions& options);
bool makes_table(const FitOptions& options);

// Opens no file.
FitOptions parse_options(int argc, char** argv);

std::string_view name_of(Objective objective);
std::string_view name_of(Effort effort);

// The command line that gives this result: base names, every choice written out, no output path, threads or verbosity.
std::string canonical_command_line(const FitOptions& options);

}  // namespace eplb
