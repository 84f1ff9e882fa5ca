#include "fit/relabel.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "core/random.hpp"
#include "fit/assignment.hpp"
#include "rows.hpp"

using namespace eplb;
using eplb::test::row_of;

namespace {

// A legal random row: every expert once, the surplus slots random, no expert twice on a rank (tried until it is so).
std::vector<ExpertId> random_row(int experts, int ranks, int slots, Random& random) {
    for (;;) {
        std::vector<int> row(static_cast<std::size_t>(ranks * slots));
        for (std::size_t p = 0; p < row.size(); ++p) {
            row[p] = p < static_cast<std::size_t>(experts)
                         ? static_cast<int>(p)
                         : static_cast<int>(random.below(static_cast<unsigned>(experts)));
        }
        for (std::size_t p = row.size(); p > 1; --p) std::swap(row[p - 1], row[random.below(static_cast<unsigned>(p))]);
        bool legal = true;
        for (int rank = 0; rank < ranks; ++rank) {
            const auto first = row.begin() + rank * slots;
            legal = legal && std::set<int>(first, first + slots).size() == static_cast<std::size_t>(slots);
        }
        if (legal) return row_of(row);
    }
}

std::vector<std::multiset<ExpertId>> rank_sets(std::span<const ExpertId> row, int ranks) {
    std::vector<std::multiset<ExpertId>> sets;
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        const auto part = row.subspan(rank * slots, slots);
        sets.emplace_back(part.begin(), part.end());
    }
    std::sort(sets.begin(), sets.end());
    return sets;
}

std::int64_t total(std::span<const std::int64_t> cost, const std::vector<int>& column_of) {
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < column_of.size(); ++row) {
        sum += cost[row * column_of.size() + static_cast<std::size_t>(column_of[row])];
    }
    return sum;
}

}  // namespace

TEST_CASE("an assignment is the cheapest of all permutations") {
    Random random(3);
    for (int round = 0; round < 300; ++round) {
        const int n = 1 + static_cast<int>(random.below(6));
        const auto spread = round % 2 == 0 ? 4u : 1000u;  // many ties, and few
        std::vector<std::int64_t> cost(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
        for (auto& value : cost) value = static_cast<std::int64_t>(random.below(spread)) - spread / 2;
        const std::vector<int> found = solve_assignment(cost, n);
        std::vector<int> permutation(static_cast<std::size_t>(n));
        std::iota(permutation.begin(), permutation.end(), 0);
        CHECK(std::is_permutation(found.begin(), found.end(), permutation.begin()));
        std::int64_t best = total(cost, permutation);
        while (std::next_permutation(permutation.begin(), permutation.end())) {
            best = std::min(best, total(cost, permutation));
        }
        CHECK(total(cost, found) == best);
    }
}

TEST_CASE("an assignment of nothing is empty") {
    CHECK(solve_assignment({}, 0).empty());
}

TEST_CASE("the same ranks under other names and in another order come back as the row in service") {
    const auto current = row_of({0, 1, 2, 3, 4, 0});
    CHECK(relabel_row(row_of({3, 2, 4, 0, 1, 0}), current, 5, 3) == current);
    CHECK(relabel_row(current, current, 5, 3) == current);
    CHECK(moved_slots(current, current, 5, 3) == 0);
}

TEST_CASE("an expert that stays on its rank keeps its slot, a new one takes the slot that is free") {
    // Rank 0 holds 0,1,2 and should hold 2,0,5: 0 and 2 stay, 5 takes the slot of 1.
    const auto row = relabel_row(row_of({2, 0, 5, 3, 4, 1}), row_of({0, 1, 2, 3, 4, 5}), 6, 2);
    CHECK(row == row_of({0, 5, 2, 3, 4, 1}));
    CHECK(moved_slots(row, row_of({0, 1, 2, 3, 4, 5}), 6, 2) == 2);
}

TEST_CASE("no naming of the ranks moves fewer experts") {
    Random random(9);
    for (int round = 0; round < 200; ++round) {
        const int ranks = 1 + static_cast<int>(random.below(5)), slots = 2 + static_cast<int>(random.below(3));
        const int experts = std::max(slots, ranks * slots - static_cast<int>(random.below(3)));
        const auto current = random_row(experts, ranks, slots, random),
                   wanted = random_row(experts, ranks, slots, random);
        const auto row = relabel_row(wanted, current, experts, ranks);
        CHECK(rank_sets(row, ranks) == rank_sets(wanted, ranks));
        std::vector<int> names(static_cast<std::size_t>(ranks));
        std::iota(names.begin(), names.end(), 0);
        int fewest = static_cast<int>(row.size());
        do {
            std::vector<ExpertId> named(row.size());
            for (std::size_t rank = 0; rank < names.size(); ++rank) {
                std::copy_n(wanted.begin() + static_cast<int>(rank) * slots, slots,
                            named.begin() + names[rank] * slots);
            }
            fewest = std::min(fewest, moved_slots(named, current, experts, ranks));
        } while (std::next_permutation(names.begin(), names.end()));
        const int moved = moved_slots(row, current, experts, ranks);
        CHECK(moved == fewest);
        // Slots that change are the slots that are fetched: nothing is shuffled inside a rank.
        int changed = 0;
        for (std::size_t p = 0; p < row.size(); ++p) changed += row[p] != current[p];
        CHECK(changed == moved);
    }
}

TEST_CASE("a row with more slots a rank keeps what was there in its place") {
    // 2 ranks x 2 slots become 2 x 3.
    const auto row = relabel_row(row_of({3, 2, 0, 1, 0, 2}), row_of({0, 1, 2, 3}), 4, 2);
    CHECK(row == row_of({0, 1, 2, 2, 3, 0}));
    CHECK(moved_slots(row, row_of({0, 1, 2, 3}), 4, 2) == 2);
}

TEST_CASE("a row in service that holds an expert twice on a rank is matched by what it holds") {
    const auto row = relabel_row(row_of({1, 0, 2, 0}), row_of({0, 0, 1, 2}), 3, 2);
    CHECK(moved_slots(row, row_of({0, 0, 1, 2}), 3, 2) == 2);
    CHECK(row[0] == ExpertId{0});
}
