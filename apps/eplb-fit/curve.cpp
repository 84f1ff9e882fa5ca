#include "curve.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "score/redundancy.hpp"

namespace eplb {

double extra_bytes_total(const Curve& curve, const CurvePoint& point, std::int64_t bytes_per_expert) {
    return static_cast<double>(bytes_per_expert) * curve.weight_layers * point.redundant_total;
}

double extra_bytes_per_rank(const Curve& curve, const CurvePoint& point, int ranks, std::int64_t bytes_per_expert) {
    return extra_bytes_total(curve, point, bytes_per_expert) / ranks;
}

Curve redundancy_curve(const FitOptions& options, const CountInput& input, const RecordSplit& split, Fits& fits) {
    const Counts& counts = input.counts;
    const Part part = parts_of(split, std::nullopt).front();
    Curve curve;
    std::vector<std::size_t> scored;
    for (const int redundant : options.redundancy_curve) {
        CurvePoint point{redundant, {}, {}, {}};
        try {
            point.geometry = geometry_with_redundancy(counts.layers(), counts.experts(), options.ranks, redundant);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::infeasible) throw;
            point.infeasible = error.message();
        }
        if (point.geometry) {
            const DispatchedFit& fitted = fits.of(*point.geometry, fmt::format("fitting with +{}", redundant));
            const Subject subject = make_subject("fitted", fitted.result.layout, split.fit);
            const std::vector<Dispatch> dispatches = fitted.dispatches(options, subject.name);
            auto results = evaluate(counts, split, {&part, 1}, {&subject, 1}, {&dispatches.front(), 1},
                                    options.common.thread_count());
            point.score = std::move(results.front().front());
            curve.weight_layers = std::max(curve.weight_layers, point.score->score.layers_scored());
            scored.push_back(curve.points.size());
        }
        curve.points.push_back(std::move(point));
    }
    if (scored.empty()) return curve;
    std::vector<BudgetScore> budgets;
    for (const std::size_t index : scored) {
        budgets.push_back({curve.points[index].redundant_total, &curve.points[index].score->score});
    }
    const PartScore& smallest = *curve.points[scored.front()].score;
    RedundancyAdvice advice = advise_redundancy(budgets, evidence_on(input, split, smallest, options.seed));
    curve.recommended = scored[advice.chosen];
    curve.reasons = std::move(advice.reasons);
    return curve;
}

}  // namespace eplb
