// The energy of one layer under given replica shares, and what a change of a few shares does to it.
#pragma once

#include <cstddef>
#include <vector>

#include "fit/slot_shares.hpp"

namespace eplb {

// F = sum_t omega_t (sum_r L_r(t)^p)^(1/p): a smooth stand-in for sum_t omega_t max_r L_r(t), which p -> infinity
// gives. L_r(t) is the load of rank r in record slot t (1 = fair part). A change is judged by the tangent of the outer
// root, which is concave: an upper bound on the true change of F. Unlike RankEnergy, whose factors hold for 1/c alone,
// it takes any shares, for a power more a rank.
class ShareEnergy {
  public:
    // p = 2^doublings.
    ShareEnergy(const SlotShares& shares, int ranks, int doublings);

    int experts() const { return experts_; }
    int steps() const { return steps_; }  // record slots

    void clear();                                    // no expert anywhere
    void place(int rank, int expert, double share);  // adds load without keeping the rest up to date; then refresh()
    void refresh();                                  // powers, their sums and the tangent from the loads
    void rescale();                    // units in which the present loads are at most 2, for 32-bit powers
    double value() const;              // F, from the sums; 1 is perfect for p -> infinity
    double floor() const;              // F of perfectly flat loads
    int hottest_rank(int step) const;  // lowest id on ties
    double load(int rank, int step) const;

    // A proposal: begin(), change() for each share that changes, delta(), and commit() if it is taken.
    void begin();
    void change(int rank, int expert, double share_change);
    double delta();
    void commit();

  private:
    std::size_t at(int rank) const { return static_cast<std::size_t>(rank) * width_; }
    void renew_tangent();

    int ranks_ = 0, experts_ = 0, steps_ = 0, doublings_ = 0;
    std::size_t width_ = 0;           // steps, padded to whole lanes with slots of weight 0
    std::vector<float> expert_load_;  // [E, width], scaled
    std::vector<float> rank_load_;    // [R, width], scaled
    std::vector<float> rank_power_;   // [R, width]: rank_load^p
    std::vector<float> power_sum_;    // [width]: sum over the ranks
    std::vector<float> tangent_;      // [width]: dF / d power_sum
    std::vector<double> weight_;      // [width]: omega in the units of the loads, 0 in the padding
    int commits_since_tangent_ = 0;

    std::vector<int> touched_;                 // ranks of the proposal
    std::vector<int> touched_index_;           // [R]: position in touched_, or -1
    std::vector<float> new_load_, new_power_;  // [touched, width]
    std::vector<float> sum_change_;            // [width]
};

}  // namespace eplb
