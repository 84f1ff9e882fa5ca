// Layouts for tests: written out, or random and legal (every expert covered, none twice on a rank).
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/layout.hpp"
#include "core/random.hpp"

namespace eplb::test {

inline Layout layout_of(const Geometry& geometry, const std::vector<int>& experts) {
    std::vector<ExpertId> slots;
    for (const int expert : experts) slots.push_back(ExpertId{expert});
    return Layout(geometry, slots);
}

inline Layout random_layout(const Geometry& geometry, std::uint64_t seed) {
    Random random(seed);
    Layout layout(geometry);
    const auto ranks = static_cast<std::size_t>(geometry.ranks);
    const auto slots = static_cast<std::size_t>(geometry.slots_per_rank);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        // Experts 0..E-1 once, the rest drawn with a few favourites, so that replica counts differ. An expert's copies
        // follow each other in the deal, so they reach different ranks while there are at most R of them.
        std::vector<int> copies(static_cast<std::size_t>(geometry.experts), 1);
        for (int extra = geometry.redundant_total(); extra > 0;) {
            const bool favourite = random.below(2) == 0;
            const auto expert =
                random.below(static_cast<std::uint32_t>(favourite ? std::min(geometry.experts, 3) : geometry.experts));
            if (copies[expert] == geometry.ranks) continue;
            ++copies[expert];
            --extra;
        }
        std::vector<int> order(copies.size());
        std::iota(order.begin(), order.end(), 0);
        for (std::size_t i = order.size(); i-- > 1;) {
            std::swap(order[i], order[random.below(static_cast<std::uint32_t>(i) + 1)]);
        }
        std::vector<std::size_t> ranks_order(ranks);
        std::iota(ranks_order.begin(), ranks_order.end(), std::size_t{0});
        for (std::size_t i = ranks; i-- > 1;) {
            std::swap(ranks_order[i], ranks_order[random.below(static_cast<std::uint32_t>(i) + 1)]);
        }
        std::vector<std::size_t> used(ranks);
        std::size_t turn = 0;
        for (const int expert : order) {
            for (int copy = 0; copy < copies[static_cast<std::size_t>(expert)]; ++copy, ++turn) {
                const std::size_t rank = ranks_order[turn % ranks];
                layout.row(layer)[rank * slots + used[rank]++] = ExpertId{expert};
            }
        }
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const auto block = layout.row(layer).subspan(rank * slots, slots);
            for (std::size_t i = slots; i-- > 1;) {
                std::swap(block[i], block[random.below(static_cast<std::uint32_t>(i) + 1)]);
            }
        }
    }
    return layout;
}

}  // namespace eplb::test
