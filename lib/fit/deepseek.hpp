// DeepSeek EPLB without groups, as published.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"

namespace eplb {

// The row [ranks * S] that the published code gives for one layer and one group on one node: extra replicas go one by
// one to the first largest load/count, without a cap; then every replica, heaviest first, to the lightest rank with a
// free slot, lowest rank first (with one slot a rank: replica i to rank i). In float32 as the original. Its sorts leave
// the order of equal loads open; here the earlier replica goes first. A rank may hold an expert twice.
//
// Source: https://github.com/deepseek-ai/EPLB, eplb.py: replicate_experts, balanced_packing (2025).
std::vector<ExpertId> deepseek_row(std::span<const std::int64_t> totals, int ranks, int slots_per_rank);

}  // namespace eplb
