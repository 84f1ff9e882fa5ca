#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"
#include "loader/plan.hpp"

using namespace eplb;

namespace {

std::vector<ExpertId> row(std::initializer_list<int> experts) {
    std::vector<ExpertId> slots;
    for (const int expert : experts) slots.push_back(ExpertId{expert});
    return slots;
}

// What the slots hold after the steps, starting from "slot s holds s".
std::vector<int> carry_out(const std::vector<CopyStep>& steps, std::size_t slots) {
    std::vector<int> content(slots);
    std::iota(content.begin(), content.end(), 0);
    int spare = -100;
    for (const auto& [from, to] : steps) {
        const int value = from == spare_slot ? spare : content[static_cast<std::size_t>(from)];
        (to == spare_slot ? spare : content[static_cast<std::size_t>(to)]) = value;
    }
    return content;
}

}  // namespace

TEST_CASE("a slot that keeps its expert is not moved") {
    CHECK(exchange_plan(row({0, 1, 2, 3}), row({0, 1, 2, 3}), 2, 1).empty());
}

TEST_CASE("an expert comes from the rank itself, then from its node, then from the lowest rank") {
    // 4 ranks x 2 slots on 2 nodes; expert 0 is on ranks 0, 1 and 3.
    const auto old_row = row({0, 1, 2, 0, 3, 4, 5, 0});
    SECTION("rank 3 holds it in its other slot") {
        CHECK(exchange_plan(old_row, row({0, 1, 2, 0, 3, 4, 0, 0}), 4, 2) == std::vector<SlotMove>{{3, 1, 3, 0}});
    }
    SECTION("rank 2 takes it from rank 3 of its node, not from rank 0") {
        CHECK(exchange_plan(old_row, row({0, 1, 2, 0, 0, 4, 5, 0}), 4, 2) == std::vector<SlotMove>{{3, 1, 2, 0}});
    }
    SECTION("with one node the lowest rank gives it") {
        CHECK(exchange_plan(old_row, row({0, 1, 2, 0, 0, 4, 5, 0}), 4, 1) == std::vector<SlotMove>{{0, 0, 2, 0}});
    }
}

TEST_CASE("an expert that nobody holds and rows of another size are refused") {
    CHECK_THROWS_AS(exchange_plan(row({0, 1}), row({0, 2}), 2, 1), Error);
    CHECK_THROWS_AS(exchange_plan(row({0, 1}), row({0, 1, 2}), 2, 1), Error);
    CHECK_THROWS_AS(exchange_plan(row({0, 1, 2}), row({0, 1, 2}), 2, 1), Error);
    CHECK_THROWS_AS(exchange_plan(row({0, 1, 2}), row({0, 1, 2}), 3, 2), Error);
}

TEST_CASE("a cycle of two needs three copies, a chain none beyond its length") {
    const std::vector<int> swap{1, 0}, chain{1, 2, 2};
    CHECK(copy_steps(swap).size() == 3);
    CHECK(copy_steps(chain) == std::vector<CopyStep>{{1, 0}, {2, 1}});
}

TEST_CASE("a source outside the slots is refused") {
    CHECK_THROWS_AS(copy_steps(std::vector<int>{2, 0}), Error);
    CHECK_THROWS_AS(copy_steps(std::vector<int>{-2, 0}), Error);
}

TEST_CASE("the copies give every slot what its source held before") {
    Random random(7);
    for (int round = 0; round < 2000; ++round) {
        const std::size_t slots = 1 + random.below(9);
        std::vector<int> source(slots);
        for (int& slot : source) slot = static_cast<int>(random.below(static_cast<std::uint32_t>(slots) + 1)) - 1;
        std::vector<int> wanted = source;
        for (std::size_t slot = 0; slot < slots; ++slot) {
            if (wanted[slot] < 0) wanted[slot] = static_cast<int>(slot);
        }
        CAPTURE(source);
        CHECK(carry_out(copy_steps(source), slots) == wanted);
    }
}

TEST_CASE("every permutation of five slots is carried out with at most one spare copy a cycle") {
    std::vector<int> source{0, 1, 2, 3, 4};
    do {
        std::size_t moved = 0, cycles = 0;
        std::vector<bool> seen(source.size());
        for (std::size_t slot = 0; slot < source.size(); ++slot) {
            moved += static_cast<std::size_t>(source[slot]) != slot;
            if (seen[slot] || static_cast<std::size_t>(source[slot]) == slot) continue;
            ++cycles;
            for (std::size_t at = slot; !seen[at]; at = static_cast<std::size_t>(source[at])) seen[at] = true;
        }
        const auto steps = copy_steps(source);
        CHECK(carry_out(steps, source.size()) == source);
        CHECK(steps.size() == moved + cycles);
    } while (std::next_permutation(source.begin(), source.end()));
}
