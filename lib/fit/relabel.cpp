#include "fit/relabel.hpp"

#include <algorithm>
#include <cstdint>

#include "fit/assignment.hpp"

namespace eplb {
namespace {

// For every expert, the ranks of a row that hold it, ascending; a rank that holds it twice is listed once.
std::vector<std::vector<int>> ranks_of_experts(std::span<const ExpertId> row, int experts, int ranks) {
    std::vector<std::vector<int>> result(static_cast<std::size_t>(experts));
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    for (std::size_t p = 0; p < row.size(); ++p) {
        auto& holders = result[static_cast<std::size_t>(row[p].value)];
        const int rank = static_cast<int>(p / slots);
        if (holders.empty() || holders.back() != rank) holders.push_back(rank);
    }
    return result;
}

}  // namespace

std::vector<ExpertId> relabel_row(std::span<const ExpertId> wanted, std::span<const ExpertId> current, int experts,
                                  int ranks) {
    const auto rank_count = static_cast<std::size_t>(ranks);
    const std::size_t slots = wanted.size() / rank_count, current_slots = current.size() / rank_count;
    const auto holders = ranks_of_experts(current, experts, ranks);
    std::vector<std::int64_t> cost(rank_count * rank_count);
    for (std::size_t p = 0; p < wanted.size(); ++p) {
        for (const int rank : holders[static_cast<std::size_t>(wanted[p].value)]) {
            --cost[p / slots * rank_count + static_cast<std::size_t>(rank)];
        }
    }
    const std::vector<int> new_rank = solve_assignment(cost, ranks);

    constexpr ExpertId free{-1};
    std::vector<ExpertId> row(wanted.size(), free);
    for (std::size_t rank = 0; rank < rank_count; ++rank) {
        const auto mine = wanted.subspan(rank * slots, slots);
        const auto target = static_cast<std::size_t>(new_rank[rank]);
        const auto place = std::span(row).subspan(target * slots, slots);
        const auto before = current.subspan(target * current_slots, current_slots);
        std::vector<ExpertId> movers;
        for (const ExpertId expert : mine) {
            const auto stays = std::find(before.begin(), before.end(), expert) - before.begin();
            const auto local = static_cast<std::size_t>(stays);
            if (local < before.size() && local < slots && place[local] == free) {
                place[local] = expert;
            } else {
                movers.push_back(expert);
            }
        }
        auto next = place.begin();
        for (const ExpertId expert : movers) {
            next = std::find(next, place.end(), free);
            *next = expert;
        }
    }
    return row;
}

int moved_slots(std::span<const ExpertId> row, std::span<const ExpertId> current, int experts, int ranks) {
    const auto holders = ranks_of_experts(current, experts, ranks);
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    int moved = 0;
    for (std::size_t p = 0; p < row.size(); ++p) {
        const auto& ranks_before = holders[static_cast<std::size_t>(row[p].value)];
        const int rank = static_cast<int>(p / slots);
        if (!std::binary_search(ranks_before.begin(), ranks_before.end(), rank)) ++moved;
    }
    return moved;
}

}  // namespace eplb
