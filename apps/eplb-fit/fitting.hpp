// One fit as the command line asks for it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "core/geometry.hpp"
#include "evaluation/evaluation.hpp"
#include "fit/problem.hpp"
#include "options.hpp"

namespace eplb {

// Throws Error{infeasible} when no legal layout has these numbers.
Geometry geometry_of(const FitOptions& options, int layers, int experts);
Geometry geometry_with_redundancy(int layers, int experts, int ranks, int redundant_total);

struct DispatchedFit {
    FitResult result;
    std::optional<DispatchTable> table;  // --dispatch balanced

    // What the layout, called `subject`, is scored under: the dispatch it was fitted for, then the even split.
    std::vector<Dispatch> dispatches(const FitOptions& options, const std::string& subject) const;
};

// Fits for --policy and --dispatch on these record slots. `what` names the work on the progress bar.
DispatchedFit fit_as_asked(const FitOptions& options, const Counts& counts, std::span<const int> record_slots,
                           const Geometry& geometry, const std::string& what);

// The fits on one set of record slots, each number of slots a rank fitted once: the layout asked for, the one without
// redundant slots that it is compared with, and those of a redundancy curve.
class Fits {
  public:
    // All outlive it.
    Fits(const FitOptions& options, const Counts& counts, const std::vector<int>& record_slots)
        : options_(options), counts_(counts), record_slots_(record_slots) {}

    // `what` names the work on the progress bar.
    const DispatchedFit& of(const Geometry& geometry, const std::string& what);

  private:
    const FitOptions& options_;
    const Counts& counts_;
    const std::vector<int>& record_slots_;
    std::map<int, DispatchedFit> by_slots_per_rank_;
};

// Fits for the even split on these record slots. `what` names the work on the progress bar.
FitResult fit_on(const FitOptions& options, const FitPolicy& policy, const Counts& counts,
                 std::span<const int> record_slots, const Geometry& geometry, const std::string& what);

}  // namespace eplb
