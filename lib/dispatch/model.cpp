#include "dispatch/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"
#include "dispatch/sglang_releases.hpp"

namespace eplb {
namespace {

using namespace dispatch;

// A generation of SGLang, its `static` and its `dynamic`.
template <const SeededRule& rule>
constexpr DispatchModel sglang_static(std::string_view name, std::string_view summary) {
    return {.name = name,
            .summary = summary,
            .needs_nodes = rule.node != NodePreference::none,
            .targets = [](const DispatchSource& source, Slots replicas,
                          int) { return near_or_all(rule, source, replicas); },
            .table = [](const Layout& layout,
                        const DispatchContext& context) { return seeded_table(rule, layout, context); },
            .seeded = &rule,
            .settled = [](std::span<const DispatchSource> sources, Slots replicas,
                          std::span<int> settled) { return settled_near(rule, sources, replicas, settled); }};
}

// Only generations whose ranks shorten their lists choose among less than all replicas.
template <const SeededRule& rule>
constexpr DispatchModel sglang_dynamic(std::string_view name, std::string_view summary) {
    DispatchModel model = sglang_static<rule>(name, summary);
    model.table = nullptr;
    model.seeded = nullptr;
    if (!rule.own_streams) {
        model.needs_nodes = false;
        model.targets = all_targets;
        model.settled = nullptr;
    }
    return model;
}

constexpr std::array models{
    DispatchModel{"even", "every replica of an expert gets the same share (an assumption)", false, false, all_targets},
    sglang_static<sglang_a>("sglang-a", "SGLang static, 0.4.7 to 0.5.2: own replica, else a seeded fair fill"),
    sglang_static<sglang_b>("sglang-b-fill-all",
                            "SGLang static, 0.5.3 to 0.5.4.post1: own, else first on the node, else a seeded fair "
                            "fill, which is asked for experts with one replica, too"),
    sglang_static<sglang_c>("sglang-c",
                            "SGLang static, 0.5.4.post2 to 0.5.5.post1 and 0.5.6 to 2026-07-15: own, else first on "
                            "the node, else a seeded fair fill, with a stream for every rank"),
    sglang_static<sglang_c_one_stream>("sglang-c-one-stream",
                                       "SGLang static, 0.5.5.post2 and .post3: as c, one stream for all ranks"),
    sglang_static<sglang_d>("sglang-d-subset",
                            "SGLang static, from 2026-07-16 (0.5.16): as c, but the node counts only where it holds a "
                            "part of the replicas"),
    sglang_static<sglang_d_elastic>("sglang-d-elastic",
                                    "SGLang static, from 2026-07-16, in an elastically scaled world: as d, the node "
                                    "never counts"),
    sglang_dynamic<sglang_a>("sglang-dynamic-a", "SGLang dynamic, generation a: random per token, even in expectation"),
    sglang_dynamic<sglang_b>("sglang-dynamic-b-fill-all", "SGLang dynamic, generation b: as a"),
    sglang_dynamic<sglang_c>("sglang-dynamic-c",
                             "SGLang dynamic, generation c, layout given as a map: nearest, else random"),
    sglang_dynamic<sglang_c_one_stream>("sglang-dynamic-c-one-stream", "SGLang dynamic, 0.5.5.post2 and .post3: as a"),
    sglang_dynamic<sglang_d>("sglang-dynamic-d-subset",
                             "SGLang dynamic, from 2026-07-16, layout given as a map: as c, but the node counts only "
                             "where it holds a part of the replicas"),
    sglang_dynamic<sglang_d_elastic>("sglang-dynamic-d-elastic",
                                     "SGLang dynamic, from 2026-07-16, in an elastically scaled world: own, else "
                                     "random"),
    DispatchModel{"sglang-dynamic-d-no-a2a",
                  "SGLang dynamic, from 2026-07-30, without an all-to-all backend: by token row, even in expectation",
                  false, false, all_targets},
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
    const bool dynamic = name.starts_with("sglang-dynamic");
    for (const DispatchModel& model : models) {
        if (model.name == name) return model;
        add(names, model.name);
        if (model.name.starts_with("sglang-") && model.name.starts_with("sglang-dynamic") == dynamic) {
            add(generations, model.name);
        }
    }
    if (name == "sglang" || name == "sglang-dynamic") {
        throw Error(ErrorCode::usage, "--dispatch", fmt::format("{} depends on the generation of the engine", name),
                    fmt::format("give --engine-version V with it, or one of {}; docs/dispatch.md says how to find a "
                                "server's",
                                generations));
    }
    if (const std::string hint = renamed_sglang_model(name); !hint.empty()) {
        throw Error(ErrorCode::usage, "--dispatch", fmt::format("{} named a rule that SGLang does not have", name),
                    hint);
    }
    throw Error(ErrorCode::usage, "--dispatch", fmt::format("'{}' is not a dispatch model", name), "one of " + names);
}

std::vector<DispatchSource> dispatch_sources(const Geometry& geometry, const DispatchContext& context) {
    const int nodes = context.nodes.value_or(1), moe_tp = context.moe_tensor_parallel;
    const std::int64_t world = std::int64_t{geometry.ranks} * moe_tp * context.pipeline_stages;
    if (moe_tp < 1 || context.pipeline_stages < 1 || world > max_ranks) {
        throw Error(
            ErrorCode::usage, moe_tp < 1 ? "--moe-tp" : "--pp",
            fmt::format("{} x {} x {} processes are no world", geometry.ranks, moe_tp, context.pipeline_stages));
    }
    if (nodes < 1 || world % nodes != 0) {
        throw Error(ErrorCode::usage, "--nodes",
                    world == geometry.ranks
                        ? fmt::format("{} ranks do not spread evenly over {} nodes", geometry.ranks, nodes)
                        : fmt::format("{} processes do not spread evenly over {} nodes", world, nodes));
    }
    if (geometry.ranks < nodes) {
        throw Error(ErrorCode::usage, "--nodes",
                    fmt::format("{} ranks on {} nodes: the engine divides the one by the other, and by nothing then",
                                geometry.ranks, nodes));
    }
    if (context.tensor_parallel < 1) {
        throw Error(ErrorCode::usage, "--tp", fmt::format("{} is no group size", context.tensor_parallel));
    }
    std::vector<DispatchSource> sources;
    for (int process = 0; process < static_cast<int>(world); ++process) {
        sources.push_back({process % (geometry.ranks * moe_tp) / moe_tp, process, geometry.ranks,
                           geometry.slots_per_rank, geometry.ranks / nodes, context.tensor_parallel});
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
    if (context.moe_tensor_parallel * context.pipeline_stages != 1 && model.seeded == nullptr) {
        throw Error(ErrorCode::usage, context.moe_tensor_parallel != 1 ? "--moe-tp" : "--pp",
                    fmt::format("{} is not known in worlds larger than EP", model.name),
                    "the static generations of SGLang are");
    }
}

DispatchTable dispatch_table(const DispatchModel& model, const Layout& layout, const DispatchContext& context) {
    if (model.table == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch", fmt::format("{} chooses per token: it has no table", model.name));
    }
    require_context(model, context);
    return model.table(layout, context);
}

ReplicaShares replica_shares(const DispatchModel& model, const Layout& layout, const DispatchContext& context,
                             const DispatchTable* given) {
    require_context(model, context);
    const Geometry& geometry = layout.geometry();
    const std::vector<double> weights = weights_of_sources(geometry, context);
    const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
    DispatchTable made;
    if (model.table != nullptr && given == nullptr) made = model.table(layout, context);
    const DispatchTable& table = given != nullptr ? *given : made;
    double total = 0;
    for (const DispatchSource& source : sources) total += weights[static_cast<std::size_t>(source.rank)];

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
                    const SlotId slot = table.row(source.process, layer)[static_cast<std::size_t>(expert)];
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

bool place_moves_streams(const DispatchModel& model, const DispatchSource& any, std::span<const SlotId> replicas) {
    return model.seeded != nullptr && model.seeded->own_streams && replicas.size() > 1 &&
           !prefers_node(*model.seeded, any, replicas);
}

}  // namespace eplb
