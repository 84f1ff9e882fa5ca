#include "loader/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/error.hpp"

namespace eplb {

std::vector<SlotMove> exchange_plan(std::span<const ExpertId> old_row, std::span<const ExpertId> new_row, int ranks,
                                    int nodes) {
    const int slots = static_cast<int>(old_row.size());
    if (new_row.size() != old_row.size() || ranks < 1 || slots == 0 || slots % ranks != 0) {
        throw Error(ErrorCode::input, "exchange plan",
                    fmt::format("rows of {} and {} slots do not fit {} ranks", old_row.size(), new_row.size(), ranks),
                    "both rows have R*S slots");
    }
    if (nodes < 1 || ranks % nodes != 0) {
        throw Error(ErrorCode::input, "exchange plan", fmt::format("{} ranks do not fill {} nodes", ranks, nodes),
                    "every node has the same number of ranks");
    }
    const int slots_per_rank = slots / ranks, ranks_per_node = ranks / nodes;
    std::unordered_map<int, std::vector<int>> holders;  // ascending slots
    for (int slot = 0; slot < slots; ++slot) holders[old_row[static_cast<std::size_t>(slot)].value].push_back(slot);

    std::vector<SlotMove> moves;
    for (int slot = 0; slot < slots; ++slot) {
        const ExpertId expert = new_row[static_cast<std::size_t>(slot)];
        if (old_row[static_cast<std::size_t>(slot)] == expert) continue;
        const auto held = holders.find(expert.value);
        if (held == holders.end()) {
            throw Error(ErrorCode::input, fmt::format("physical slot {}", slot),
                        fmt::format("wants expert {}, which no rank holds", expert.value),
                        "read it from the checkpoint instead");
        }
        const int rank = slot / slots_per_rank;
        const auto distance = [&](int source) {
            const int source_rank = source / slots_per_rank;
            if (source_rank == rank) return 0;
            return source_rank / ranks_per_node == rank / ranks_per_node ? 1 : 2;
        };
        const int source = *std::min_element(held->second.begin(), held->second.end(),
                                             [&](int a, int b) { return distance(a) < distance(b); });
        moves.push_back({source / slots_per_rank, source % slots_per_rank, rank, slot % slots_per_rank});
    }
    return moves;
}

std::vector<CopyStep> copy_steps(std::span<const int> source) {
    const int slots = static_cast<int>(source.size());
    std::vector<int> wanted(source.begin(), source.end());  // -1: nothing left to do
    std::vector<int> readers(source.size());
    for (int slot = 0; slot < slots; ++slot) {
        int& from = wanted[static_cast<std::size_t>(slot)];
        if (from < -1 || from >= slots) {
            throw Error(ErrorCode::input, fmt::format("slot {}", slot),
                        fmt::format("source {} is outside 0..{}", from, slots - 1));
        }
        if (from == slot) from = -1;
        if (from >= 0) ++readers[static_cast<std::size_t>(from)];
    }
    std::vector<CopyStep> steps;
    std::vector<int> free;  // slots that nobody has to read any more
    for (int slot = 0; slot < slots; ++slot) {
        if (readers[static_cast<std::size_t>(slot)] == 0) free.push_back(slot);
    }
    const auto drain = [&] {
        while (!free.empty()) {
            const int slot = free.back();
            free.pop_back();
            const int from = std::exchange(wanted[static_cast<std::size_t>(slot)], -1);
            if (from < 0) continue;
            steps.push_back({from, slot});
            if (--readers[static_cast<std::size_t>(from)] == 0) free.push_back(from);
        }
    };
    drain();
    for (int slot = 0; slot < slots; ++slot) {  // what remains are cycles: each slot read by exactly one other
        if (wanted[static_cast<std::size_t>(slot)] < 0) continue;
        steps.push_back({slot, spare_slot});
        int target = slot;
        for (int from = wanted[static_cast<std::size_t>(target)]; from != slot;
             from = wanted[static_cast<std::size_t>(target)]) {
            steps.push_back({from, target});
            wanted[static_cast<std::size_t>(target)] = -1;
            target = from;
        }
        steps.push_back({spare_slot, target});
        wanted[static_cast<std::size_t>(target)] = -1;
    }
    return steps;
}

}  // namespace eplb
