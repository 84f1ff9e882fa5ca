// One long anneal of the step objective of one layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "fit/schedule.hpp"
#include "fit/slot_shares.hpp"

namespace eplb {

struct AnnealOptions {
    Work work = 0;             // what may be spent, in units of WorkModel
    float sharpness = 12;      // of the smoothed maximum, see RankEnergy
    double replica_share = 0;  // of the proposals that are replica moves rather than swaps; 0: replica counts stay
    std::uint64_t seed = 0;
};

// The best row found by sum_t omega_t max_r L_r(t) on `shares`, no worse than `start` up to single precision. `start`
// is legal, [ranks * S]. Reproducible: depends on the arguments only.
std::vector<ExpertId> anneal(const SlotShares& shares, std::span<const ExpertId> start, int ranks,
                             const AnnealOptions& options);

}  // namespace eplb
