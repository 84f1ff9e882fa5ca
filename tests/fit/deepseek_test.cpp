#include "fit/deepseek.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/layout.hpp"
#include "fit/problem.hpp"
#include "fit/random_counts.hpp"
#include "fit/repair.hpp"
#include "rows.hpp"

using namespace eplb;
using eplb::test::row_of;

namespace {

std::vector<ExpertId> published(std::vector<std::int64_t> totals, int ranks, int slots_per_rank) {
    return deepseek_row(totals, ranks, slots_per_rank);
}

}  // namespace

TEST_CASE("the published rows of DeepSeek EPLB come out, duplicates included") {
    CHECK(published({100, 61, 37, 23, 17, 11, 7, 3}, 4, 3) == row_of({0, 3, 6, 0, 2, 4, 0, 2, 5, 1, 1, 7}));
    const auto row = published({900, 10, 9, 8}, 4, 2);  // five replicas of expert 0 for four ranks
    CHECK(row[0] == ExpertId{0});
    CHECK(row[1] == ExpertId{0});
}

TEST_CASE("with one slot a rank, replicas stay in the order they were made") {
    CHECK(published({10, 90, 20}, 5, 1) == row_of({0, 1, 2, 1, 1}));
}

TEST_CASE("a second replica on a rank is exchanged, at the least cost") {
    // Replica loads 30, 10, 5 on rank 0 and 25, 25, 8 on rank 1. The second 25 for the 30 leaves 63 on rank 1; for the
    // 10, 60 on rank 0; for the 5, 65 on rank 0.
    auto row = row_of({0, 3, 2, 1, 1, 4});
    const Repair repair = repair_row(row, std::vector<double>{30, 50, 5, 10, 8}, 2);
    CHECK(repair.exchanged == 1);
    CHECK(repair.replaced == 0);
    CHECK(row == row_of({0, 1, 2, 1, 3, 4}));
}

TEST_CASE("replicas beyond one a rank go to the expert that gains most") {
    auto row = row_of({0, 0, 0, 1, 2, 0});
    const Repair repair = repair_row(row, std::vector<double>{90, 8, 7}, 2);
    CHECK(repair.replaced == 2);
    CHECK(replica_counts(row, 3) == std::vector<int>{2, 2, 2});
}

TEST_CASE("a legal row is not touched") {
    auto row = row_of({0, 1, 2, 0, 3, 1});
    const auto before = row;
    const Repair repair = repair_row(row, std::vector<double>{1, 2, 3, 4}, 2);
    CHECK(repair.exchanged + repair.replaced == 0);
    CHECK(row == before);
}

TEST_CASE("rows with any duplicates become legal") {
    Random random(11);
    for (int round = 0; round < 4000; ++round) {
        const Geometry geometry = test::random_geometry(random, 10, 7);
        const auto experts = static_cast<std::uint32_t>(geometry.experts);
        std::vector<ExpertId> row(static_cast<std::size_t>(geometry.physical_slots()));
        for (std::size_t slot = 0; slot < row.size(); ++slot) {  // covers, in random places
            const auto other = random.below(static_cast<std::uint32_t>(slot + 1));
            row[slot] = row[other];
            row[other] = ExpertId{static_cast<int>(slot < experts ? slot : random.below(experts))};
        }
        const auto counts = test::random_weights(random, geometry.experts);
        const std::vector<double> weights(counts.begin(), counts.end());
        const Repair repair = repair_row(row, weights, geometry.ranks);
        INFO("round " << round << ": " << describe(geometry) << ", " << repair.exchanged);
        const auto replicas = replica_counts(row, geometry.experts);
        REQUIRE(*std::min_element(replicas.begin(), replicas.end()) >= 1);
        for (int rank = 0; rank < geometry.ranks; ++rank) {
            const auto first = row.begin() + rank * geometry.slots_per_rank;
            std::vector<ExpertId> on_rank(first, first + geometry.slots_per_rank);
            std::sort(on_rank.begin(), on_rank.end());
            REQUIRE(std::adjacent_find(on_rank.begin(), on_rank.end()) == on_rank.end());
        }
    }
}

TEST_CASE("the deepseek policy says how many duplicates it repaired") {
    FitProblem problem;
    problem.geometry = {2, 8, 4, 3};
    problem.layers = {{1, 8, {100, 61, 37, 23, 17, 11, 7, 3}}, {1, 8, {0, 0, 0, 0, 0, 0, 0, 0}}};
    const FitResult result = fit(find_fit_policy("deepseek"), problem);
    REQUIRE(result.notes.size() == 1);
    CHECK(result.notes[0].find("1 of 2 layers: 1 exchanged") != std::string::npos);
}
