#include "fit/window.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/layout.hpp"

using namespace eplb;

namespace {

// Largest rank load, from scratch.
double largest_load(std::span<const std::int64_t> totals, std::span<const ExpertId> row, int ranks) {
    const auto replicas = replica_counts(row, static_cast<int>(totals.size()));
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    double largest = 0;
    for (std::size_t first = 0; first < row.size(); first += slots) {
        double load = 0;
        for (std::size_t slot = first; slot < first + slots; ++slot) {
            const auto e = static_cast<std::size_t>(row[slot].value);
            load += static_cast<double>(totals[e]) / replicas[e];
        }
        largest = std::max(largest, load);
    }
    return largest;
}

double fitted_load(std::vector<std::int64_t> totals, int ranks, int slots_per_rank) {
    return largest_load(totals, fit_window_row(totals, {}, ranks, slots_per_rank, {}).row, ranks);
}

}  // namespace

TEST_CASE("80, 60, 10, 10 on 2 ranks x 3 slots is balanced perfectly") {
    CHECK(fitted_load({80, 60, 10, 10}, 2, 3) == 80);
}
