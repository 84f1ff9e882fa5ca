// The hosts divide the ranks. With a remainder the floor division of the engines puts ranks on wrong hosts.
#include <fmt/format.h>

#include "check/layout/checks.hpp"

namespace eplb::check {

std::vector<Finding> check_nodes(const LayoutContext& context) {
    const LayoutExpectation& expectation = context.expectation;
    if (!expectation.nodes) {
        if (!context.target.needs_nodes) return {};
        return {{Severity::info, "NODES_NOT_STATED", "",
                 "the number of hosts decides which replica gets the traffic, and is not known here", "say --nodes"}};
    }
    if (expectation.ranks % *expectation.nodes == 0) return {};
    return {{Severity::error, "NODES_DO_NOT_DIVIDE", "",
             fmt::format("{} ranks do not divide by {} nodes", expectation.ranks, *expectation.nodes),
             "check --ranks and --nodes; hosts must have equally many ranks"}};
}

}  // namespace eplb::check
