#include "fit/repair.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/layout.hpp"

namespace eplb {
namespace {

class Repairer {
  public:
    Repairer(std::span<ExpertId> row, std::span<const double> weights, int ranks)
        : row_(row),
          weights_(weights),
          ranks_(static_cast<std::size_t>(ranks)),
          slots_(row.size() / ranks_),
          replicas_(replica_counts(row, static_cast<int>(weights.size()))) {}

    Repair run() {
        Repair repair;
        for (std::size_t slot = 0; slot < row_.size(); ++slot) {
            if (is_second(slot) && replicas_[index(slot)] > static_cast<int>(ranks_)) {
                replace(slot);
                ++repair.replaced;
            }
        }
        load_.resize(ranks_);
        for (std::size_t slot = 0; slot < row_.size(); ++slot) load_[slot / slots_] += replica_load(slot);
        for (std::size_t slot = 0; slot < row_.size(); ++slot) {
            while (is_second(slot)) {
                exchange(slot);
                ++repair.exchanged;
            }
        }
        return repair;
    }

  private:
    std::size_t index(std::size_t slot) const { return static_cast<std::size_t>(row_[slot].value); }
    double replica_load(std::size_t slot) const { return weights_[index(slot)] / replicas_[index(slot)]; }

    std::ptrdiff_t count_on(std::size_t rank, ExpertId expert) const {
        const ExpertId* first = row_.data() + rank * slots_;
        return std::count(first, first + slots_, expert);
    }

    // Whether an earlier slot of the rank holds the same expert.
    bool is_second(std::size_t slot) const {
        const ExpertId *first = row_.data() + slot / slots_ * slots_, *here = row_.data() + slot;
        return std::find(first, here, row_[slot]) != here;
    }

    // The slot goes to the expert with the largest w/c below one replica a rank, if possible one that is not on this
    // rank. There is one: the others would have to fill (E-1)*R slots.
    void replace(std::size_t slot) {
        std::size_t best = weights_.size();
        bool best_is_here = true;
        for (std::size_t e = 0; e < weights_.size(); ++e) {
            if (replicas_[e] >= static_cast<int>(ranks_)) continue;
            const bool here = count_on(slot / slots_, ExpertId{static_cast<int>(e)}) > 0;
            if (best == weights_.size() || here < best_is_here ||
                (here == best_is_here && weights_[e] * replicas_[best] > weights_[best] * replicas_[e])) {
                best = e;
                best_is_here = here;
            }
        }
        --replicas_[index(slot)];
        row_[slot] = ExpertId{static_cast<int>(best)};
        ++replicas_[best];
    }

    // Rank r holds expert e twice; some rank q holds none, since there are at most R replicas. If q holds S different
    // experts, two of them are not on r (r has at most S-2 others than e), and exchanging e for one of those leaves one
    // second replica less; otherwise q holds some expert twice, and exchanging e for it does, wherever that lands.
    void exchange(std::size_t slot) {
        const std::size_t rank = slot / slots_;
        double best = std::numeric_limits<double>::infinity();
        std::size_t partner = row_.size();
        for (std::size_t other = 0; other < ranks_; ++other) {
            if (count_on(other, row_[slot]) > 0) continue;
            for (std::size_t s = other * slots_; s < (other + 1) * slots_; ++s) {
                if (count_on(rank, row_[s]) > 0 && count_on(other, row_[s]) == 1) continue;
                const double moved = replica_load(slot) - replica_load(s);
                const double larger = std::max(load_[rank] - moved, load_[other] + moved);
                if (larger < best) {
                    best = larger;
                    partner = s;
                }
            }
        }
        if (partner == row_.size()) throw Error(ErrorCode::internal, "repair_row", "the row cannot be made legal");
        const double moved = replica_load(slot) - replica_load(partner);
        load_[rank] -= moved;
        load_[partner / slots_] += moved;
        std::swap(row_[slot], row_[partner]);
    }

    std::span<ExpertId> row_;
    std::span<const double> weights_;
    std::size_t ranks_, slots_;
    std::vector<int> replicas_;  // [E]
    std::vector<double> load_;   // [R]
};

}  // namespace

Repair repair_row(std::span<ExpertId> row, std::span<const double> weights, int ranks) {
    return Repairer(row, weights, ranks).run();
}

}  // namespace eplb
