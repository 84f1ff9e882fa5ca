#include "score/layout_score.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "core/random.hpp"

using namespace eplb;

namespace {

Counts counts_of(std::vector<std::int64_t> values, int slots, int layers, int experts) {
    return Counts({make_count_tensor(std::move(values), slots, layers, experts)});
}

ReplicaShares even(const Layout& layout) {
    return replica_shares(find_dispatch_model("even"), layout, {});
}

Layout layout_of(const Geometry& geometry, const std::vector<int>& experts) {
    std::vector<ExpertId> slots;
    for (const int expert : experts) slots.push_back(ExpertId{expert});
    return {geometry, std::move(slots)};
}

}  // namespace

TEST_CASE("the ratio is taken over the ranks of a layer: rank 1 with twice the tokens in every layer is no balance") {
    // Loads 1 and 2 in each of two layers; averaged over layers first, both ranks would look alike in some metrics.
    const Counts counts = counts_of({1, 2, 1, 2}, 1, 2, 2);
    const Layout layout = layout_of({2, 2, 2, 1}, {0, 1, 0, 1});
    const LayoutScore score = score_layout(counts, std::vector{0}, layout, even(layout), 1);
    CHECK(score.layers[0]->step == 2 / 1.5);
    CHECK(score.layers[1]->step == 2 / 1.5);
    CHECK(score.layers[1]->worst_rank == 1);
}

TEST_CASE("only the chosen record slots are scored") {
    const Counts counts = counts_of({3, 1, 0, 0, 1, 1}, 3, 1, 2);
    const Layout layout = layout_of({1, 2, 2, 1}, {0, 1});
    const ReplicaShares shares = even(layout);
    CHECK(score_layout(counts, std::vector{0}, layout, shares, 1).layers[0]->step == 1.5);
    CHECK(score_layout(counts, std::vector{2}, layout, shares, 1).layers[0]->step == 1.0);
    CHECK_FALSE(score_layout(counts, std::vector{1}, layout, shares, 1).layers[0]);
    const LayoutScore both = score_layout(counts, std::vector{0, 2}, layout, shares, 1);
    CHECK(both.layers[0]->step == 4.0 / 3.0);  // (3 + 1) / (2 + 1)
    CHECK(both.steps.max == std::vector<double>{3, 1});
    CHECK(both.steps.mean == std::vector<double>{2, 1});
}

TEST_CASE("layouts of other ranks and slots are scored in one pass and do not touch each other") {
    Random random(7);
    std::vector<std::int64_t> values(5 * 3 * 6);
    for (auto& value : values) value = random.below(100);
    const Counts counts = counts_of(values, 5, 3, 6);
    const Layout narrow = trivial_layout({3, 6, 2, 3}), wide = trivial_layout({3, 6, 4, 2});
    const ReplicaShares narrow_shares = even(narrow), wide_shares = even(wide);
    const std::vector<Placement> placements{{&narrow, &narrow_shares}, {&wide, &wide_shares}};
    const std::vector<int> slots{0, 1, 4};
    const auto together = score_layouts(counts, slots, placements, 3);
    for (const std::size_t index : {0u, 1u}) {
        const auto alone = score_layout(counts, slots, *placements[index].layout, *placements[index].shares, 1);
        for (const std::size_t layer : {0u, 1u, 2u}) {
            CHECK(together[index].layers[layer]->step == alone.layers[layer]->step);
            CHECK(together[index].layers[layer]->window == alone.layers[layer]->window);
        }
        CHECK(together[index].steps.max == alone.steps.max);
    }
}

TEST_CASE("counts that do not go with the layout are refused") {
    const Layout layout = trivial_layout({1, 2, 2, 1});
    const ReplicaShares shares = even(layout);
    CHECK_THROWS_AS(score_layout(counts_of({1, 1, 1}, 1, 1, 3), std::vector{0}, layout, shares, 1), Error);
    CHECK_THROWS_AS(score_layout(counts_of({1, 1, 1, 1}, 1, 2, 2), std::vector{0}, layout, shares, 1), Error);
}

TEST_CASE("the parts of a split: fit, holdout, and both in the order of the file") {
    const RecordSplit split = split_record_slots(std::vector{2, 3, 5, 8, 9}, Holdout::interleave);
    CHECK(record_slots_of(split, Part::fit) == std::vector{2, 5, 9});
    CHECK(record_slots_of(split, Part::holdout) == std::vector{3, 8});
    CHECK(record_slots_of(split, Part::all) == std::vector{2, 3, 5, 8, 9});
    CHECK(parse_part("holdout") == Part::holdout);
    CHECK_THROWS_AS(parse_part("test"), Error);
}
