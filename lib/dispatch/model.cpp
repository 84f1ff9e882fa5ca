#include "dispatch/model.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.hpp"
#include "dispatch/models.hpp"

namespace eplb {
namespace {

constexpr std::array models{
    DispatchModel{"even", "every replica of an expert gets the same share (an assumption)", false, nullptr,
                  dispatch::even_shares},
};

}  // namespace

std::span<const DispatchModel> dispatch_models() {
    return models;
}

const DispatchModel& find_dispatch_model(std::string_view name) {
    std::string names;
    for (const DispatchModel& model : models) {
        if (model.name == name) return model;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", model.name);
    }
    throw Error(ErrorCode::usage, "--dispatch", fmt::format("'{}' is not a dispatch model", name), "one of " + names);
}

ReplicaShares replica_shares(const DispatchModel& model, const Layout& layout, const DispatchContext& context) {
    if (model.needs_nodes && !context.nodes) {
        throw Error(ErrorCode::usage, "--nodes",
                    fmt::format("dispatch model {} depends on the number of nodes", model.name),
                    "give --nodes N, the hosts the ranks are spread over");
    }
    return model.shares(layout, context);
}

}  // namespace eplb
