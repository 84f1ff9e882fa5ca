// Drawing record slots towards their mean where most of what they show on a rank is noise.
#pragma once

#include <span>
#include <vector>

#include "fit/slot_shares.hpp"

namespace eplb {

// The factor lambda in (0, 1] for one layer. sigma^2 is the variance that a new slot's load on a rank has for reasons
// that the others do not predict, from the counting noise and the spread of the shares with a prior; the annealer's
// smoothed maximum is sharper than that noise allows when sharpness * sigma > 2 sqrt(2 ln R), and lambda makes up for
// it.
//
// predictability: share of the variance that is predicted. replicas: [E]. mean_inverse_total: mean over the slots,
// weighted by their totals, of 1 / total.
double shrink_factor(const SlotShares& shares, std::span<const int> replicas, int ranks, double sharpness,
                     double predictability, double mean_inverse_total);

// y := lambda y + (1 - lambda) m, in slots with counts.
void shrink(SlotShares& shares, double lambda);

// m_e = sum_t omega_t y_te, [E].
std::vector<double> mean_shares(const SlotShares& shares);

// The same record slots and a further one, the mean of all, with `weight` (the others sum to 1): holds the window value
// down where slots are few.
SlotShares with_mean_slot(const SlotShares& shares, double weight);

}  // namespace eplb
