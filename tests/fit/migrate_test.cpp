#include "fit/migrate.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"

using namespace eplb;

namespace {

Layout layout_of(const Geometry& geometry, const std::vector<int>& experts) {
    std::vector<ExpertId> slots;
    for (const int expert : experts) slots.push_back(ExpertId{expert});
    return {geometry, std::move(slots)};
}

LayoutScore score_of(const std::vector<double>& steps) {  // 0: a layer without counts
    LayoutScore score;
    for (const double step : steps) {
        score.layers.push_back(step == 0 ? std::nullopt : std::optional(LayerBalance{step, step, 0}));
    }
    return score;
}

constexpr Geometry four_layers{4, 4, 2, 2};

}  // namespace

TEST_CASE("a row stays when the gain is below the threshold, when it gets worse, and when it has no counts") {
    const Layout current = trivial_layout(four_layers), wanted = trivial_layout(four_layers);
    // Gains 5 %, 4.5 %, -10 %, and no counts.
    const auto keep = rows_to_keep(current, score_of({2.0, 2.0, 1.0, 0}), wanted, score_of({1.9, 1.91, 1.1, 0}), 0.05);
    CHECK(keep == std::vector<bool>{false, true, true, true});
}

TEST_CASE("with a threshold of 0 only worse rows stay") {
    const Layout current = trivial_layout(four_layers), wanted = trivial_layout(four_layers);
    const auto keep = rows_to_keep(current, score_of({2.0, 2.0, 1.0, 1.0}), wanted, score_of({2.0, 1.9, 1.1, 1.0}), 0);
    CHECK(keep == std::vector<bool>{false, false, true, false});
}

TEST_CASE("an illegal row never stays") {
    // Layer 0 leaves expert 3 out; layer 1 holds expert 0 twice on rank 0.
    const Layout current = layout_of({2, 3, 2, 2}, {0, 1, 1, 0, 0, 0, 1, 2});
    const Layout wanted = layout_of({2, 3, 2, 2}, {0, 1, 2, 0, 0, 1, 2, 0});
    CHECK(rows_to_keep(current, score_of({1.0, 1.0}), wanted, score_of({2.0, 2.0}), 0.05) ==
          std::vector<bool>{false, false});
}

TEST_CASE("no row stays when the number of slots changes") {
    const Layout current = trivial_layout({1, 4, 2, 2}), wanted = trivial_layout({1, 4, 2, 3});
    CHECK(rows_to_keep(current, score_of({1.0}), wanted, score_of({2.0}), 0.05) == std::vector<bool>{false});
    // 0,1 | 2,3 become {0,1,2} and {3,0,1}: 2 is new on the one rank, 0 and 1 on the other.
    CHECK(moved_slots_by_layer(current, migrate(current, wanted, {false})) == std::vector{3});
}

TEST_CASE("rows that change are named so that little moves, the others are the current ones") {
    const Layout current = layout_of({2, 4, 2, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
    const Layout wanted = layout_of({2, 4, 2, 2}, {3, 0, 2, 1, 3, 0, 2, 1});
    const Layout next = migrate(current, wanted, {true, false});
    CHECK(next == layout_of({2, 4, 2, 2}, {0, 1, 2, 3, 0, 3, 2, 1}));
    CHECK(moved_slots_by_layer(current, next) == std::vector{0, 2});
}

TEST_CASE("layouts of other ranks cannot be migrated") {
    CHECK_THROWS_AS(migrate(trivial_layout({1, 4, 2, 2}), trivial_layout({1, 4, 4, 1}), {false}), Error);
}
