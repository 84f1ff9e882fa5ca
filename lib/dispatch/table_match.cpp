#include "dispatch/table_match.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace eplb {
namespace {

std::vector<int> divisors_of(int number) {
    std::vector<int> divisors;
    for (int divisor = 1; divisor <= number; ++divisor) {
        if (number % divisor == 0) divisors.push_back(divisor);
    }
    return divisors;
}

TableMatch compare(const DispatchTable& made, const DispatchTable& found, std::optional<int> process) {
    TableMatch match;
    for (int row = 0; row < found.ranks; ++row) {
        const int source = process.value_or(row);
        for (int layer = 0; layer < found.layers; ++layer) {
            const auto by_rule = made.row(source, layer), in_table = found.row(row, layer);
            for (std::size_t expert = 0; expert < by_rule.size(); ++expert) {
                if (by_rule[expert] == in_table[expert]) continue;
                if (match.different++ > 0) continue;
                match.process = source;
                match.layer = layer;
                match.expert = static_cast<int>(expert);
                match.by_rule = by_rule[expert];
                match.in_table = in_table[expert];
            }
        }
    }
    return match;
}

}  // namespace

std::vector<TableMatch> match_table(const Layout& layout, const DispatchTable& table, const DispatchContext& given,
                                    std::optional<int> process) {
    const Geometry& geometry = layout.geometry();
    const int world = static_cast<int>(dispatch_sources(geometry, given).size());
    if (table.ranks != (process ? 1 : world) || table.layers != geometry.layers || table.experts != geometry.experts) {
        throw Error(
            ErrorCode::input, "",
            fmt::format("it is for {} ranks, {} layers, {} experts; the layout and the flags are for {}, {}, {}",
                        table.ranks, table.layers, table.experts, process ? 1 : world, geometry.layers,
                        geometry.experts),
            "give --rank for the table of one rank, --moe-tp and --pp where more than the EP ranks have a row");
    }
    if (process && (*process < 0 || *process >= world)) {
        throw Error(ErrorCode::usage, "--rank", fmt::format("{} is not one of {} processes", *process, world));
    }
    std::vector<TableMatch> matches;
    for (const DispatchModel& model : dispatch_models()) {
        if (model.table == nullptr || model.targets == nullptr) continue;
        if (world != geometry.ranks && model.seeded == nullptr) continue;  // not known there
        std::vector<int> nodes{1}, groups{1};
        if (model.needs_nodes) nodes = given.nodes ? std::vector{*given.nodes} : divisors_of(world);
        if (model.uses_tensor_parallel) {
            groups = given.tensor_parallel > 1 ? std::vector{given.tensor_parallel} : divisors_of(geometry.ranks);
        }
        std::optional<TableMatch> nearest;
        for (const int node_count : nodes) {
            if (node_count > geometry.ranks) continue;
            for (const int group : groups) {
                DispatchContext context = given;
                context.nodes = node_count;
                context.tensor_parallel = group;
                TableMatch match = compare(model.table(layout, context), table, process);
                match.model = model.name;
                if (model.needs_nodes) match.nodes = node_count;
                match.tensor_parallel = group;
                if (!nearest || match.different < nearest->different) nearest = match;
            }
        }
        if (nearest) matches.push_back(*nearest);
    }
    std::stable_sort(matches.begin(), matches.end(),
                     [](const TableMatch& a, const TableMatch& b) { return a.different < b.different; });
    return matches;
}

}  // namespace eplb
