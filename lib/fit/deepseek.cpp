#include "fit/deepseek.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "fit/layers.hpp"
#include "fit/policies.hpp"
#include "fit/repair.hpp"

namespace eplb {
namespace {

std::vector<ExpertId> replicas_in_order_of_creation(std::span<const float> weights, std::size_t slots,
                                                    std::vector<int>& counts) {
    std::vector<ExpertId> experts;
    experts.reserve(slots);
    for (std::size_t e = 0; e < weights.size(); ++e) experts.push_back(ExpertId{static_cast<int>(e)});
    std::vector<float> quotients(weights.begin(), weights.end());
    while (experts.size() < slots) {
        const auto largest = std::max_element(quotients.begin(), quotients.end());
        const auto e = static_cast<std::size_t>(largest - quotients.begin());
        experts.push_back(ExpertId{static_cast<int>(e)});
        *largest = weights[e] / static_cast<float>(++counts[e]);
    }
    return experts;
}

}  // namespace

std::vector<ExpertId> deepseek_row(std::span<const std::int64_t> totals, int ranks, int slots_per_rank) {
    const auto rank_count = static_cast<std::size_t>(ranks), slots = static_cast<std::size_t>(slots_per_rank);
    std::vector<float> weights;
    for (const std::int64_t total : totals) weights.push_back(static_cast<float>(total));
    std::vector<int> counts(totals.size(), 1);
    const auto experts = replicas_in_order_of_creation(weights, rank_count * slots, counts);
    if (slots_per_rank == 1) return experts;

    std::vector<float> loads;
    for (const ExpertId expert : experts) {
        const auto e = static_cast<std::size_t>(expert.value);
        loads.push_back(weights[e] / static_cast<float>(counts[e]));
    }
    std::vector<std::size_t> order(experts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });

    std::vector<ExpertId> row(experts.size());
    std::vector<float> rank_load(rank_count);
    std::vector<std::size_t> used(rank_count);
    for (const std::size_t replica : order) {
        std::size_t lightest = rank_count;
        for (std::size_t rank = 0; rank < rank_count; ++rank) {
            if (used[rank] == slots) continue;
            if (lightest == rank_count || rank_load[rank] < rank_load[lightest]) lightest = rank;
        }
        row[lightest * slots + used[lightest]++] = experts[replica];
        rank_load[lightest] += loads[replica];
    }
    return row;
}

FitResult policy::deepseek(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    std::vector<Repair> repairs(problem.layers.size());
    FitResult result;
    result.layout = fit_rows(problem, [&](int layer, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        std::ranges::copy(deepseek_row(totals, geometry.ranks, geometry.slots_per_rank), row.begin());
        const std::vector<double> weights(totals.begin(), totals.end());
        repairs[static_cast<std::size_t>(layer)] = repair_row(row, weights, geometry.ranks);
    });
    Repair all;
    int layers = 0;
    for (const Repair& repair : repairs) {
        all.replaced += repair.replaced;
        all.exchanged += repair.exchanged;
        layers += repair.replaced + repair.exchanged > 0 ? 1 : 0;
    }
    if (layers > 0) {
        result.notes.push_back(fmt::format(
            "the published method left second replicas of an expert on a rank in {} of {} layers: {} exchanged with "
            "another rank, {} given to other experts",
            layers, geometry.layers, all.exchanged, all.replaced));
    }
    return result;
}

}  // namespace eplb
