// Fits for the dispatch that will run, in place of the even split.
#pragma once

#include <optional>
#include <vector>

#include "core/dispatch_table.hpp"
#include "dispatch/model.hpp"
#include "fit/problem.hpp"

namespace eplb {

// A layout for a server whose own rule picks the replicas: counts, places and orders replicas so that the traffic as
// that rule sends it is balanced. Where the rule deals replicas from a seeded stream, the layout is fitted to the very
// table that the stream gives. The model has `targets`; throws Error{usage} when the context lacks what it needs.
FitResult fit_for_rule(const FitProblem& problem, const DispatchModel& model, const DispatchContext& context);

struct BalancedFit {
    FitResult fit;
    DispatchTable table;  // [R, L, E]
    // [L] What no shares of the same replicas are below (max/mean of the objective): the certificate of what whole
    // source ranks cost. Window: the optimum of real-valued shares, exactly. Step: that of shares chosen anew for every
    // record slot, a bound that no table need reach. Empty for layers without counts.
    std::vector<std::optional<double>> share_optimum;
};

// A layout together with a dispatch table of our own, for a server that loads one: each source rank sends all its
// tokens of an expert to one replica, to its own where that costs nothing, and how many send where is fitted together
// with the layout. Of `context` the number of nodes is used: what no own replica serves stays on the node if it can.
BalancedFit fit_balanced(const FitProblem& problem, const DispatchContext& context);

}  // namespace eplb
