// The parts of --json outputs that eplb-fit and eplb-score have in common.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "evaluation/count_input.hpp"
#include "evaluation/evaluation.hpp"

namespace eplb {

nlohmann::ordered_json geometry_json(const Geometry& geometry);

// Files, reduction, record slots and how they are split; with the findings of the gate.
nlohmann::ordered_json counts_json(const CountInput& input, const RecordSplit& split, Holdout holdout);

nlohmann::ordered_json results_json(const std::vector<PartScore>& results);
nlohmann::ordered_json verdict_json(const Verdict& verdict, const std::string& against);

// A finite number, else null.
nlohmann::ordered_json number_json(double value);

}  // namespace eplb
