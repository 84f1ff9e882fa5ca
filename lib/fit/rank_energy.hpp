// The energy that the step fit anneals, and its change under a move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "fit/energy_kernels.hpp"
#include "fit/moves.hpp"
#include "fit/slot_shares.hpp"

namespace eplb {

// For one layer, with L_r(t) the load of rank r in record slot t (1 = fair part), the energy is the smoothed step
// objective
//
//     F = sum_t omega_t (M_t + 1/b_t ln sum_r exp(b_t (L_r(t) - M_t))),     max_r L <= F_t <= max_r L + ln(R) / b_t,
//
// with M_t the largest load and b_t = sharpness / M_t as they were at the last rebase(). Kept are the rank terms
// exp(b_t (L_r - M_t)) and, per expert, exp(+-b_t y_e / c_e): a swap multiplies two rank terms by factors that are
// already there, without an exponential. Changes are taken on the tangent of the concave logarithm at the current
// state, which is never below the true change, so a move that looks better is better.
class RankEnergy {
  public:
    // `row` is legal, [ranks * S]; `shares` outlives this object.
    RankEnergy(const SlotShares& shares, std::span<const ExpertId> row, int ranks, float sharpness,
               const energy::Kernels& kernels = energy::kernels());

    std::vector<ExpertId> row() const;
    int ranks() const { return ranks_; }
    int slots_per_rank() const { return slots_per_rank_; }
    int expert_at(int rank, int index) const { return row_[slot(rank, index)]; }
    int replicas(int expert) const { return replicas_[static_cast<std::size_t>(expert)]; }
    bool holds(int rank, int expert) const { return held_[held(rank, expert)] != 0; }
    int hottest_rank(int record_slot) const {
        return hottest_[static_cast<std::size_t>(record_slot)];
    }  // see refresh()

    double value() const;  // F
    double floor() const;  // F if every rank carried its fair part of every slot
    double step() const;   // sum_t omega_t max_r L_r(t) at the last refresh()

    // Whether the move keeps the row legal.
    bool allowed(const Swap& swap) const;
    bool allowed(const ReplicaMove& move) const;

    float change(const Swap& swap) const;
    float change(const ReplicaMove& move);
    void apply(const Swap& swap);
    void apply(const ReplicaMove& move);

    // The best allowed swap between two ranks and its change; false when there is none.
    bool best_swap(int rank_a, int rank_b, Swap& best, float& change);
    int swaps_looked_at() const { return looked_at_; }  // by the last best_swap()

    void rebase();     // new M_t and b_t from the current loads, then recompute()
    void recompute();  // all rank terms from the factors (single-precision drift), then refresh()
    void refresh();    // sums, gradient and hottest ranks

  private:
    std::size_t slot(int rank, int index) const { return static_cast<std::size_t>(rank * slots_per_rank_ + index); }
    std::size_t held(int rank, int expert) const {
        return static_cast<std::size_t>(expert) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(rank);
    }
    void find_touched(const ReplicaMove& move, int losing);

    const energy::Kernels& kernels_;
    const SlotShares& shares_;
    int ranks_, slots_per_rank_;
    float sharpness_goal_;
    int looked_at_ = 0;
    std::vector<int> row_, replicas_, hottest_;
    std::vector<std::uint8_t> held_;
    std::vector<Lanes> factors_, rank_terms_, sums_, gradient_, sharpness_, reference_, empty_, scratch_;
    std::vector<float> largest_, changes_;
    std::vector<energy::Touched> touched_;
    std::vector<int> indices_a_, indices_b_, experts_a_, experts_b_;
    energy::Arrays arrays_;
};

}  // namespace eplb
