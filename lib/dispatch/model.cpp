#include "dispatch/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"

namespace eplb {
namespace {

using namespace dispatch;

constexpr std::array models{
    DispatchModel{"even", "every replica of an expert gets the same share (an assumption)", false, false, all_targets},
    DispatchModel{"sglang-a", "SGLang static, up to 2025-08: own replica, else a seeded fair fill", false, false,
                  local_or_all_targets, sglang_a_table, true},
    DispatchModel{"sglang-b", "SGLang static, from 2025-09: first replica on the node, else a seeded fair fill", true,
                  false, nearest_or_all_targets, sglang_b_table, true, nearest_settled},
    DispatchModel{"sglang-c", "SGLang static, from 2025-10: as b, with a stream of its own for every rank", true, false,
                  nearest_or_all_targets, sglang_c_table, true, nearest_settled},
    DispatchModel{"sglang-d", "SGLang static, from 2026-07, with an all-to-all backend: as c (without one: not known)",
                  true, false, nearest_or_all_targets, sglang_c_table, true, nearest_settled},
    DispatchModel{"sglang-dynamic-a", "SGLang dynamic, generation a: random per token, even in expectation", false,
                  false, all_targets},
    DispatchModel{"sglang-dynamic-b", "SGLang dynamic, generation b: random per token, even in expectation", false,
                  false, all_targets},
    DispatchModel{"sglang-dynamic-c", "SGLang dynamic, generation c, layout given as a map: nearest, else random", true,
                  false, nearest_or_all_targets, nullptr, false, nearest_settled},
    DispatchModel{"sglang-dynamic-d", "SGLang dynamic, generation d, with an all-to-all backend: as c", true, false,
                  nearest_or_all_targets, nullptr, false, nearest_settled},
    DispatchModel{"vllm-ascend", "vllm-ascend MRv1: rank modulo replicas (--tp N for its tensor-parallel variant)",
                  false, true, vllm_ascend_targets, vllm_ascend_table},
    DispatchModel{"xllm", "xLLM: rank modulo replicas", false, false, xllm_targets, xllm_table},
    DispatchModel{"omni", "omni-infer: own replica, else same host modulo, else all modulo", true, false, omni_targets,
                  omni_table},
    DispatchModel{"trtllm", "TensorRT-LLM: round robin in blocks of 1024 assignments, even in expectation", false,
                  false, all_targets},
    DispatchModel{"vllm", "vLLM: by position or hash of the token, even in expectation", false, false, all_targets},
    DispatchModel{"table", "the dispatch table of a file", false, false, nullptr, given_table},
};

// Adds up in slot order to exactly 1: what rounding left over goes to the last replica that has a share.
void close_to_one(std::span<double> row, Slots replicas) {
    double sum = 0, before_last = 0;
    SlotId last = replicas.front();
    for (const SlotId slot : replicas) {
        const double share = row[static_cast<std::size_t>(slot.value)];
        if (share == 0) continue;
        last = slot;
        before_last = sum;
        sum += share;
    }
    if (sum != 1) row[static_cast<std::size_t>(last.value)] = 1 - before_last;
}

std::vector<double> weights_of_sources(const Geometry& geometry, const DispatchContext& context) {
    const auto ranks = static_cast<std::size_t>(geometry.ranks);
    if (context.source_weights.empty()) return std::vector<double>(ranks, 1.0);
    if (context.source_weights.size() != ranks) {
        throw Error(ErrorCode::input, "source weights",
                    fmt::format("{} values for {} ranks", context.source_weights.size(), ranks));
    }
    double total = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const double weight = context.source_weights[rank];
        if (!std::isfinite(weight) || weight < 0) {
            throw Error(ErrorCode::input, fmt::format("source weights, rank {}", rank),
                        fmt::format("{} is no amount of traffic", weight));
        }
        total += weight;
    }
    if (total <= 0 || !std::isfinite(total)) throw Error(ErrorCode::input, "source weights", "they add up to nothing");
    return context.source_weights;
}

}  // namespace

std::span<const DispatchModel> dispatch_models() {
    return models;
}

const DispatchModel& find_dispatch_model(std::string_view name) {
    std::string names, generations;
    const auto add = [](std::string& list, std::string_view one) {
        list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
    };
    for (const DispatchModel& model : models) {
        if (model.name == name) return model;
        add(names, model.name);
        // A generation is a letter at the end.
        if (model.name.size() == name.size() + 2 && model.name.starts_with(name) && model.name[name.size()] == '-') {
            add(generations, model.name);
        }
    }
    if (!generations.empty()) {
        throw Error(ErrorCode::usage, "--dispatch", fmt::format("{} depends on the generation of the engine", name),
                    fmt::format("give one of {}; docs/dispatch.md says how to find a server's", generations));
    }
    throw Error(ErrorCode::usage, "--dispatch", fmt::format("'{}' is not a dispatch model", name), "one of " + names);
}

std::vector<DispatchSource> dispatch_sources(const Geometry& geometry, const DispatchContext& context) {
    const int nodes = context.nodes.value_or(1);
    if (nodes < 1 || geometry.ranks % nodes != 0) {
        throw Error(ErrorCode::usage, "--nodes",
                    fmt::format("{} ranks do not spread evenly over {} nodes", geometry.ranks, nodes));
    }
    if (context.tensor_parallel < 1) {
        throw Error(ErrorCode::usage, "--tp", fmt::format("{} is no group size", context.tensor_parallel));
    }
    std::vector<DispatchSource> sources;
    for (int rank = 0; rank < geometry.ranks; ++rank) {
        sources.push_back({rank, geometry.slots_per_rank, geometry.ranks / nodes, context.tensor_parallel});
    }
    return sources;
}

bool is_even(const DispatchModel& model) {
    return model.targets == all_targets;
}

void require_context(const DispatchModel& model, const DispatchContext& context) {
    if (model.needs_nodes && !context.nodes) {
        throw Error(ErrorCode::usage, "--nodes",
                    fmt::format("dispatch model {} depends on the number of nodes", model.name),
                    "give --nodes N, the hosts the ranks are spread over");
    }
}

DispatchTable dispatch_table(const DispatchModel& model, const Layout& layout, const DispatchContext& context) {
    if (model.table == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch", fmt::format("{} chooses per token: it has no table", model.name));
    }
    require_context(model, context);
    return model.table(layout, context);
}

ReplicaShares replica_shares(const DispatchModel& model, const Layout& layout, const DispatchContext& context) {
    require_context(model, context);
    const Geometry& geometry = layout.geometry();
    const std::vector<double> weights = weights_of_sources(geometry, context);
    const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
    DispatchTable table;
    if (model.table != nullptr) table = model.table(layout, context);
    double total = 0;
    for (const double weight : weights) total += weight;

    ReplicaShares shares{geometry.layers, geometry.physical_slots(), {}};
    shares.values.resize(static_cast<std::size_t>(geometry.layers) *
                         static_cast<std::size_t>(geometry.physical_slots()));
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const ReplicaLists lists(layout, layer);
        const auto row = shares.row(layer);
        for (int expert = 0; expert < geometry.experts; ++expert) {
            const Slots replicas = lists.of(expert);
            // Whole weights add up exactly, so that a share under a table is one rounded division.
            double spread = 0;  // of the sources that choose among all replicas
            for (const DispatchSource& source : sources) {
                const double weight = weights[static_cast<std::size_t>(source.rank)];
                if (model.table != nullptr) {
                    const SlotId slot = table.row(source.rank, layer)[static_cast<std::size_t>(expert)];
                    row[static_cast<std::size_t>(slot.value)] += weight;
                } else if (const Slots targets = model.targets(source, replicas, expert); targets.size() == 1) {
                    row[static_cast<std::size_t>(targets.front().value)] += weight;
                } else {
                    spread += weight;
                }
            }
            for (const SlotId slot : replicas) {
                double& share = row[static_cast<std::size_t>(slot.value)];
                share = share / total + spread / total / static_cast<double>(replicas.size());
            }
            close_to_one(row, replicas);
        }
    }
    return shares;
}

double replica_share_max_over_mean(const Layout& layout, const ReplicaShares& shares) {
    double largest = 1;
    for (int layer = 0; layer < layout.geometry().layers; ++layer) {
        const auto row = layout.row(layer);
        const auto replicas = replica_counts(row, layout.geometry().experts);
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            largest = std::max(largest, shares.row(layer)[slot] * replicas[static_cast<std::size_t>(row[slot].value)]);
        }
    }
    return largest;
}

int settled_sources(const DispatchModel& model, std::span<const DispatchSource> sources,
                    std::span<const SlotId> replicas, int expert, std::span<int> settled) {
    if (model.settled != nullptr) return model.settled(sources, replicas, settled);
    std::fill(settled.begin(), settled.end(), 0);
    int unsettled = 0;
    for (const DispatchSource& source : sources) {
        const Slots targets = model.targets(source, replicas, expert);
        if (targets.size() == 1) {
            ++settled[static_cast<std::size_t>(targets.data() - replicas.data())];
        } else {
            ++unsettled;
        }
    }
    return unsettled;
}

}  // namespace eplb
