#include "fit/swap.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "fit/loaded_row.hpp"

namespace eplb {
namespace {

// Slot loads relative to the mean rank, in float, four at a time: good enough to choose an exchange, which is then
// judged in double.
using SwapLanes = float __attribute__((vector_size(16)));
constexpr std::size_t swap_lanes = 4;
constexpr float no_replica = 1e30f;  // fills the last lanes of a rank: never the best partner

struct Exchange {
    std::size_t slot = 0, other = 0;                          // on the busiest rank and on another one
    double larger = std::numeric_limits<double>::infinity();  // load of the busier of the two ranks after it
};

class Swapper {
  public:
    Swapper(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks)
        : row_(row, replica_loads, ranks),
          stride_((row_.slots_per_rank() + swap_lanes - 1) / swap_lanes * swap_lanes),
          by_load_(row_.ranks()),
          near_(row_.ranks() * stride_, no_replica),
          closest_(row_.slots_per_rank()) {
        double total = 0;
        for (const double load : row_.loads()) total += load;
        scale_ = total > 0 ? static_cast<double>(ranks) / total : 0;
        for (std::size_t rank = 0; rank < row_.ranks(); ++rank) {
            for (std::size_t i = 0; i < row_.slots_per_rank(); ++i) refresh_near(rank, i);
        }
        std::iota(by_load_.begin(), by_load_.end(), std::size_t{0});
        std::sort(by_load_.begin(), by_load_.end(), [&](std::size_t a, std::size_t b) { return lighter(a, b); });
    }

    double run(double target) {
        while (largest() > target) {
            const Exchange exchange = find(target);
            if (!(exchange.larger < largest() * (1 - least_gain))) break;
            row_.exchange(exchange.slot, exchange.other);
            for (const std::size_t slot : {exchange.slot, exchange.other}) {
                const std::size_t rank = row_.rank_of(slot);
                refresh_near(rank, slot - row_.first_slot(rank));
            }
            reorder(row_.rank_of(exchange.other));
        }
        return largest();
    }

  private:
    double largest() const { return row_.load(by_load_.back()); }

    bool lighter(std::size_t a, std::size_t b) const {
        return row_.load(a) != row_.load(b) ? row_.load(a) < row_.load(b) : a < b;
    }

    const float* near_of(std::size_t rank) const { return near_.data() + rank * stride_; }

    void refresh_near(std::size_t rank, std::size_t i) {
        near_[rank * stride_ + i] = static_cast<float>(row_.slot_load(row_.first_slot(rank) + i) * scale_);
    }

    Exchange find(double target) {
        const std::size_t busiest = by_load_.back();
        Exchange best;
        for (const std::size_t other : by_load_) {
            const double middle = 0.5 * (row_.load(busiest) + row_.load(other));
            if (other == busiest || middle >= best.larger) break;
            const Exchange exchange = best_exchange(busiest, other);
            if (exchange.larger < best.larger) best = exchange;
            if (best.larger <= target) break;
        }
        return best;
    }

    // Moving d = x_a - x_b from one rank to the other leaves the larger of the two loads at middle + |d - half|, where
    // half is half their difference: the best pair has d closest to half.
    Exchange best_exchange(std::size_t busiest, std::size_t other) {
        const float *mine = near_of(busiest), *theirs = near_of(other);
        const auto half = static_cast<float>(0.5 * (row_.load(busiest) - row_.load(other)) * scale_);
        SwapLanes least_lanes = {no_replica, no_replica, no_replica, no_replica};
        for (std::size_t a = 0; a < row_.slots_per_rank(); ++a) {
            SwapLanes closest = distances(theirs, mine[a] - half);
            for (std::size_t b = swap_lanes; b < stride_; b += swap_lanes)
                closest = smaller(closest, distances(theirs + b, mine[a] - half));
            closest_[a] = closest;
            least_lanes = smaller(least_lanes, closest);
        }
        const float least = smallest(least_lanes);
        std::size_t a = 0, b = 0;
        while (a + 1 < row_.slots_per_rank() && smallest(closest_[a]) != least) ++a;
        while (b + 1 < row_.slots_per_rank() && std::abs(theirs[b] - (mine[a] - half)) != least) ++b;
        const Exchange exchange = make_exchange(row_.first_slot(busiest) + a, row_.first_slot(other) + b);
        return exchange.larger < std::numeric_limits<double>::infinity() ? exchange
                                                                         : best_legal_exchange(busiest, other);
    }

    static SwapLanes smaller(SwapLanes a, SwapLanes b) { return a < b ? a : b; }
    static float smallest(SwapLanes a) { return std::min(std::min(a[0], a[1]), std::min(a[2], a[3])); }

    static SwapLanes distances(const float* loads, float wanted) {
        SwapLanes distance;
        std::memcpy(&distance, loads, sizeof distance);
        distance -= wanted;
        const SwapLanes opposite = -distance;
        return distance < opposite ? opposite : distance;
    }

    Exchange best_legal_exchange(std::size_t busiest, std::size_t other) const {
        Exchange best;
        for (std::size_t slot = row_.first_slot(busiest); slot < row_.first_slot(busiest + 1); ++slot) {
            for (std::size_t partner = row_.first_slot(other); partner < row_.first_slot(other + 1); ++partner) {
                const Exchange exchange = make_exchange(slot, partner);
                if (exchange.larger < best.larger) best = exchange;
            }
        }
        return best;
    }

    // `larger` is infinite when a rank would get an expert twice.
    Exchange make_exchange(std::size_t slot, std::size_t other) const {
        Exchange exchange{slot, other};
        const std::size_t rank = row_.rank_of(slot), other_rank = row_.rank_of(other);
        if (row_.holds(other_rank, row_.expert(slot)) || row_.holds(rank, row_.expert(other))) return exchange;
        const double moved = row_.slot_load(slot) - row_.slot_load(other);
        exchange.larger = std::max(row_.load(rank) - moved, row_.load(other_rank) + moved);
        return exchange;
    }

    // The busiest rank has become lighter and `other` heavier; by_load_ is in the order of before.
    void reorder(std::size_t other) {
        const std::size_t was_busiest = by_load_.back();
        by_load_.pop_back();
        auto at = std::find(by_load_.begin(), by_load_.end(), other);
        for (; at + 1 != by_load_.end() && lighter(*(at + 1), other); ++at) *at = *(at + 1);
        *at = other;
        by_load_.push_back(was_busiest);
        for (at = by_load_.end() - 1; at != by_load_.begin() && lighter(was_busiest, *(at - 1)); --at) *at = *(at - 1);
        *at = was_busiest;
    }

    LoadedRow row_;
    std::size_t stride_;                // slots a rank, rounded up to whole swap_lanes
    std::vector<std::size_t> by_load_;  // ranks, lightest first
    std::vector<float> near_;           // [R][stride], slot loads times scale_
    std::vector<SwapLanes> closest_;    // [S], of one slot to the slots of another rank
    double scale_ = 0;
};

}  // namespace

double swap_down(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks, double target) {
    return Swapper(row, replica_loads, ranks).run(target);
}

}  // namespace eplb
