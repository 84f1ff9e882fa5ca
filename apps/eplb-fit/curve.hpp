// What redundancy buys: fits with different numbers of redundant slots, compared.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "core/record_split.hpp"
#include "evaluation/count_input.hpp"
#include "evaluation/evaluation.hpp"
#include "fitting.hpp"
#include "options.hpp"

namespace eplb {

struct CurvePoint {
    int redundant_total = 0;
    std::optional<Geometry> geometry;  // absent: no legal layout, and `infeasible` says why
    std::string infeasible;
    std::optional<PartScore> score;  // on the headline part
};

struct Curve {
    std::vector<CurvePoint> points;  // ascending in redundant_total
    std::optional<std::size_t> recommended;
    std::vector<std::string> reasons;
    int weight_layers = 0;  // layers that hold expert weights: those with counts
};

// Memory of the redundant slots.
double extra_bytes_per_rank(const Curve& curve, const CurvePoint& point, int ranks, std::int64_t bytes_per_expert);
double extra_bytes_total(const Curve& curve, const CurvePoint& point, std::int64_t bytes_per_expert);

// One fit for every entry of options.redundancy_curve, scored under the dispatch it was made for. `fits`: of the part
// fit.
Curve redundancy_curve(const FitOptions& options, const CountInput& input, const RecordSplit& split, Fits& fits);

}  // namespace eplb
