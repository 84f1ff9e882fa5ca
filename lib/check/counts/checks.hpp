// The functions behind the table of count checks, one per file.
#pragma once

#include <cstdint>
#include <vector>

#include "check/count_check.hpp"

namespace eplb::check {

using Findings = std::vector<Finding>;

Findings check_file_name(const CountContext& context);
Findings check_reduction(const CountContext& context);
Findings check_shape(const CountContext& context);
Findings check_geometry(const CountContext& context);
Findings check_ranks(const CountContext& context);
Findings check_numbers(const CountContext& context);
Findings check_left_out(const CountContext& context);
Findings check_empty(const CountContext& context);
Findings check_record_slots(const CountContext& context);
Findings check_sample_size(const CountContext& context);
Findings check_duplicate_slots(const CountContext& context);
Findings check_zero_layers(const CountContext& context);
Findings check_placement(const CountContext& context);
Findings check_routed_ids(const CountContext& context);
Findings check_rounding(const CountContext& context);
Findings check_layer_totals(const CountContext& context);
Findings check_draft_layer(const CountContext& context);
Findings check_top_k(const CountContext& context);
Findings check_expert_above_tokens(const CountContext& context);
Findings check_not_reduced(const CountContext& context);
Findings check_never_hit(const CountContext& context);
Findings check_expected_total(const CountContext& context);
Findings check_padding(const CountContext& context);
Findings check_shared_expert(const CountContext& context);
Findings check_drift(const CountContext& context);
Findings check_forced_routing(const CountContext& context);
Findings check_outlier_slots(const CountContext& context);
Findings check_scenario(const CountContext& context);

// What check_sample_size and check_expected_total say of one file, for the record slots and the sum of several files.
Findings small_sample(int filled, int distinct);  // record slots with counts; without copies
Findings unexpected_total(std::int64_t total, std::int64_t expected);

}  // namespace eplb::check
