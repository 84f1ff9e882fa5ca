#include "core/geometry.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "core/error.hpp"

namespace eplb {
namespace {

std::string redundancy_hint(int experts, int ranks, int wanted) {
    const std::vector<int> totals = nearest_redundant_totals(experts, ranks, wanted);
    if (totals.empty()) return "no redundancy works for these ranks";
    std::string list;
    for (const int total : totals) {
        list += fmt::format("{}+{} ({} slots a rank)", list.empty() ? "" : ", ", total, (experts + total) / ranks);
    }
    return "nearest --redundant-total that works: " + list;
}

void require_sizes(int experts, int ranks) {
    if (experts < 1 || experts > max_experts) {
        throw Error(ErrorCode::infeasible, "", fmt::format("{} experts are outside 1..{}", experts, max_experts));
    }
    if (ranks < 1 || ranks > max_ranks) {
        throw Error(ErrorCode::infeasible, "", fmt::format("{} ranks are outside 1..{}", ranks, max_ranks));
    }
}

}  // namespace

std::vector<int> nearest_redundant_totals(int experts, int ranks, int wanted) {
    const auto total_for = [&](std::int64_t slots) { return slots * ranks - experts; };
    const auto feasible = [&](std::int64_t slots) {
        return slots >= 1 && slots <= experts && total_for(slots) >= 0 && slots * ranks <= max_physical_slots;
    };
    const std::int64_t first =
        (std::int64_t{experts} + wanted + ranks - 1) / ranks;  // smallest S with at least `wanted`
    std::vector<int> totals;
    for (std::int64_t slots = std::min<std::int64_t>(first - 1, experts); slots >= 1; --slots) {
        if (feasible(slots)) {
            totals.push_back(static_cast<int>(total_for(slots)));
            break;
        }
    }
    for (std::int64_t slots = std::max<std::int64_t>(first, 1); slots <= first + 1; ++slots) {
        if (feasible(slots)) totals.push_back(static_cast<int>(total_for(slots)));
    }
    return totals;
}

int slots_for_redundant_total(int experts, int ranks, int redundant_total) {
    require_sizes(experts, ranks);
    if (redundant_total < 0) {
        throw Error(ErrorCode::usage, "--redundant-total", fmt::format("{} is negative", redundant_total));
    }
    const std::int64_t physical = std::int64_t{experts} + redundant_total;
    if (physical % ranks != 0) {
        throw Error(ErrorCode::infeasible, "",
                    fmt::format("{} experts + {} redundant = {} physical slots do not divide by {} ranks", experts,
                                redundant_total, physical, ranks),
                    redundancy_hint(experts, ranks, redundant_total));
    }
    const std::int64_t slots = physical / ranks;
    if (slots > experts) {
        throw Error(
            ErrorCode::infeasible, "",
            fmt::format("{} slots a rank are more than the {} experts: a rank would hold one twice", slots, experts),
            redundancy_hint(experts, ranks, redundant_total));
    }
    return static_cast<int>(slots);
}

int slots_for_redundant_per_rank(int experts, int ranks, int redundant_per_rank) {
    require_sizes(experts, ranks);
    if (redundant_per_rank < 0) {
        throw Error(ErrorCode::usage, "--redundant-per-rank", fmt::format("{} is negative", redundant_per_rank));
    }
    if (experts % ranks != 0) {
        throw Error(ErrorCode::infeasible, "",
                    fmt::format("redundancy per rank needs {} experts to divide by {} ranks", experts, ranks),
                    redundancy_hint(experts, ranks, 0));
    }
    const std::int64_t total = std::int64_t{redundant_per_rank} * ranks;
    if (total > max_physical_slots) {
        throw Error(ErrorCode::infeasible, "",
                    fmt::format("{} redundant slots a rank on {} ranks are more than {} physical slots",
                                redundant_per_rank, ranks, max_physical_slots));
    }
    return slots_for_redundant_total(experts, ranks, static_cast<int>(total));
}

void require_feasible(const Geometry& geometry) {
    require_sizes(geometry.experts, geometry.ranks);
    if (geometry.layers < 1 || geometry.layers > max_layers) {
        throw Error(ErrorCode::infeasible, "", fmt::format("{} layers are outside 1..{}", geometry.layers, max_layers));
    }
    const std::int64_t physical = std::int64_t{geometry.ranks} * geometry.slots_per_rank;
    if (geometry.slots_per_rank < 1 || physical > max_physical_slots) {
        throw Error(ErrorCode::infeasible, "",
                    fmt::format("{} slots a rank on {} ranks are outside 1..{} physical slots", geometry.slots_per_rank,
                                geometry.ranks, max_physical_slots));
    }
    if (physical < geometry.experts) {
        throw Error(ErrorCode::infeasible, "",
                    fmt::format("{} ranks x {} slots = {} physical slots cannot hold {} experts", geometry.ranks,
                                geometry.slots_per_rank, physical, geometry.experts),
                    redundancy_hint(geometry.experts, geometry.ranks, 0));
    }
    if (geometry.slots_per_rank > geometry.experts) {
        throw Error(ErrorCode::infeasible, "",
                    fmt::format("{} slots a rank are more than the {} experts: a rank would hold one twice",
                                geometry.slots_per_rank, geometry.experts),
                    redundancy_hint(geometry.experts, geometry.ranks, geometry.redundant_total()));
    }
}

std::string describe(const Geometry& geometry) {
    const int redundant = geometry.redundant_total();
    const std::string per_rank =
        redundant % geometry.ranks == 0 ? fmt::format(", {} a rank", redundant / geometry.ranks) : std::string();
    return fmt::format("{} experts, {} ranks x {} slots ({} redundant in total{})", geometry.experts, geometry.ranks,
                       geometry.slots_per_rank, redundant, per_rank);
}

}  // namespace eplb
