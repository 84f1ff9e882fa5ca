#include "fit/swap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace eplb {
namespace {

// Loads relative to the mean rank, in float, four at a time: good enough to choose an exchange, which is then checked
// in double.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t lanes = 4;
constexpr double least_gain = 1e-12;  // relative; above the rounding of a rank load, so that every step is one down
constexpr float no_replica = 1e30f;   // fills the last lanes of a rank: never the best partner

struct Exchange {
    std::size_t from = 0, to = 0;                             // slots on the busiest rank and on the other one
    double larger = std::numeric_limits<double>::infinity();  // larger load of the two ranks after it
};

class Swapper {
  public:
    Swapper(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks)
        : row_(row),
          replica_loads_(replica_loads),
          ranks_(static_cast<std::size_t>(ranks)),
          slots_(row.size() / ranks_),
          blocks_((slots_ + lanes - 1) / lanes),
          by_load_(ranks_),
          load_(ranks_),
          near_(ranks_ * blocks_) {
        double total = 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank) total += load_[rank] = rank_load(rank);
        scale_ = total > 0 ? static_cast<double>(ranks) / total : 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank) refresh_near(rank);
        std::iota(by_load_.begin(), by_load_.end(), std::size_t{0});
        std::sort(by_load_.begin(), by_load_.end(), [&](std::size_t a, std::size_t b) { return lighter(a, b); });
    }

    double run(double target) {
        while (largest() > target) {
            const Exchange exchange = find(target);
            if (!(exchange.larger < largest() * (1 - least_gain))) break;
            apply(exchange);
        }
        return largest();
    }

  private:
    double largest() const { return load_[by_load_.back()]; }
    bool lighter(std::size_t a, std::size_t b) const { return load_[a] != load_[b] ? load_[a] < load_[b] : a < b; }
    double slot_load(std::size_t slot) const { return replica_loads_[static_cast<std::size_t>(row_[slot].value)]; }

    double rank_load(std::size_t rank) const {
        double sum = 0;
        for (std::size_t slot = rank * slots_; slot < (rank + 1) * slots_; ++slot) sum += slot_load(slot);
        return sum;
    }

    void refresh_near(std::size_t rank) {
        for (std::size_t i = 0; i < blocks_ * lanes; ++i) {
            near_[rank * blocks_ + i / lanes][i % lanes] =
                i < slots_ ? static_cast<float>(slot_load(rank * slots_ + i) * scale_) : no_replica;
        }
    }

    Exchange find(double target) const {
        const std::size_t busiest = by_load_.back();
        Exchange best;
        for (const std::size_t other : by_load_) {
            const double middle = 0.5 * (load_[busiest] + load_[other]);
            if (other == busiest || middle >= best.larger) break;
            const Exchange exchange = best_exchange(busiest, other);
            if (exchange.larger < best.larger) best = exchange;
            if (best.larger <= target) break;
        }
        return best;
    }

    // Moving d = x_a - x_b from one rank to the other leaves the larger of the two loads at middle + |d - half|, where
    // half is half their difference: the best pair has d closest to half.
    Exchange best_exchange(std::size_t busiest, std::size_t other) const {
        const Lanes* others = &near_[other * blocks_];
        const auto half = static_cast<float>(0.5 * (load_[busiest] - load_[other]) * scale_);
        float least = std::numeric_limits<float>::infinity();
        std::size_t from = 0;
        for (std::size_t a = 0; a < slots_; ++a) {
            const float wanted = near_[busiest * blocks_ + a / lanes][a % lanes] - half;
            Lanes closest = {no_replica, no_replica, no_replica, no_replica};
            for (std::size_t block = 0; block < blocks_; ++block) {
                Lanes distance = others[block] - wanted;
                distance = distance < 0 ? -distance : distance;
                closest = distance < closest ? distance : closest;
            }
            const float low = std::min(closest[0], closest[1]), high = std::min(closest[2], closest[3]);
            if (std::min(low, high) < least) {
                least = std::min(low, high);
                from = a;
            }
        }
        const float wanted = near_[busiest * blocks_ + from / lanes][from % lanes] - half;
        std::size_t to = 0;
        while (std::abs(others[to / lanes][to % lanes] - wanted) != least) ++to;
        const Exchange exchange = make_exchange(busiest, from, other, to);
        return exchange.larger < std::numeric_limits<double>::infinity() ? exchange
                                                                         : best_legal_exchange(busiest, other);
    }

    Exchange best_legal_exchange(std::size_t busiest, std::size_t other) const {
        Exchange best;
        for (std::size_t from = 0; from < slots_; ++from) {
            for (std::size_t to = 0; to < slots_; ++to) {
                const Exchange exchange = make_exchange(busiest, from, other, to);
                if (exchange.larger < best.larger) best = exchange;
            }
        }
        return best;
    }

    // `larger` is infinite when a rank would get an expert twice.
    Exchange make_exchange(std::size_t busiest, std::size_t from, std::size_t other, std::size_t to) const {
        Exchange exchange{busiest * slots_ + from, other * slots_ + to};
        if (holds(other, row_[exchange.from]) || holds(busiest, row_[exchange.to])) return exchange;
        const double moved = slot_load(exchange.from) - slot_load(exchange.to);
        exchange.larger = std::max(load_[busiest] - moved, load_[other] + moved);
        return exchange;
    }

    bool holds(std::size_t rank, ExpertId expert) const {
        const ExpertId* first = row_.data() + rank * slots_;
        return std::find(first, first + slots_, expert) != first + slots_;
    }

    void apply(const Exchange& exchange) {
        std::swap(row_[exchange.from], row_[exchange.to]);
        for (const std::size_t slot : {exchange.from, exchange.to}) {
            const std::size_t rank = slot / slots_;
            load_[rank] = rank_load(rank);
            near_[rank * blocks_ + slot % slots_ / lanes][slot % slots_ % lanes] =
                static_cast<float>(slot_load(slot) * scale_);
            reorder(rank);
        }
    }

    void reorder(std::size_t rank) {
        auto at = std::find(by_load_.begin(), by_load_.end(), rank);
        for (; at != by_load_.begin() && lighter(rank, *(at - 1)); --at) *at = *(at - 1);
        for (; at + 1 != by_load_.end() && lighter(*(at + 1), rank); ++at) *at = *(at + 1);
        *at = rank;
    }

    std::span<ExpertId> row_;
    std::span<const double> replica_loads_;
    std::size_t ranks_, slots_, blocks_;
    std::vector<std::size_t> by_load_;  // ranks, lightest first
    std::vector<double> load_;          // [R], each summed in slot order
    std::vector<Lanes> near_;           // [R][blocks], slot loads times scale_
    double scale_ = 0;
};

}  // namespace

double swap_down(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks, double target) {
    return Swapper(row, replica_loads, ranks).run(target);
}

}  // namespace eplb
