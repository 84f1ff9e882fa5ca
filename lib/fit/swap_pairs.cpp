#include "fit/swap_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "fit/loaded_row.hpp"
#include "fit/swap.hpp"

namespace eplb {
namespace {

constexpr std::size_t most_rank_slots = 64;

struct Pair {
    double load = 0;
    std::size_t first = 0, second = 0;  // slots of one rank
};

struct PairExchange {
    Pair pair, other;
    double larger = std::numeric_limits<double>::infinity();  // load of the busier of the two ranks after it
};

class PairSwapper {
  public:
    explicit PairSwapper(LoadedRow& row) : row_(row) {
        for (std::size_t rank = 0; rank < row.ranks(); ++rank) by_load_.push_back(rank);
        std::sort(by_load_.begin(), by_load_.end(), [&](std::size_t a, std::size_t b) {
            return row.load(a) != row.load(b) ? row.load(a) < row.load(b) : a < b;
        });
    }

    // One exchange that lowers the busiest rank, to the target if one does. False when there is none.
    bool improve(double target) {
        const std::size_t busiest = by_load_.back();
        list_pairs(busiest, mine_);
        PairExchange best;
        for (const std::size_t other : by_load_) {
            const double middle = 0.5 * (row_.load(busiest) + row_.load(other));
            if (other == busiest || middle >= best.larger || best.larger <= target) break;
            list_pairs(other, theirs_);
            find(busiest, other, best);
        }
        if (!(best.larger < row_.load(busiest) * (1 - least_gain))) return false;
        row_.exchange(best.pair.first, best.other.first);
        row_.exchange(best.pair.second, best.other.second);
        return true;
    }

  private:
    void list_pairs(std::size_t rank, std::vector<Pair>& pairs) const {
        pairs.clear();
        for (std::size_t first = row_.first_slot(rank); first < row_.first_slot(rank + 1); ++first) {
            for (std::size_t second = first + 1; second < row_.first_slot(rank + 1); ++second) {
                pairs.push_back({row_.slot_load(first) + row_.slot_load(second), first, second});
            }
        }
        std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
            return a.load != b.load ? a.load < b.load : a.first != b.first ? a.first < b.first : a.second < b.second;
        });
    }

    // The best moved load is half the difference of the ranks: for each pair of the busiest rank, ascending, the pairs
    // of the other one on both sides of that mark.
    void find(std::size_t busiest, std::size_t other, PairExchange& best) const {
        const double half = 0.5 * (row_.load(busiest) - row_.load(other));
        std::size_t above = 0;
        for (const Pair& pair : mine_) {
            while (above < theirs_.size() && theirs_[above].load < pair.load - half) ++above;
            if (above < theirs_.size()) consider(pair, theirs_[above], best);
            if (above > 0) consider(pair, theirs_[above - 1], best);
        }
    }

    void consider(const Pair& pair, const Pair& other, PairExchange& best) const {
        const std::size_t rank = row_.rank_of(pair.first), other_rank = row_.rank_of(other.first);
        const double moved = pair.load - other.load;
        const double larger = std::max(row_.load(rank) - moved, row_.load(other_rank) + moved);
        if (!(larger < best.larger)) return;
        for (const std::size_t slot : {pair.first, pair.second}) {
            if (row_.holds(other_rank, row_.expert(slot))) return;
        }
        for (const std::size_t slot : {other.first, other.second}) {
            if (row_.holds(rank, row_.expert(slot))) return;
        }
        best = {pair, other, larger};
    }

    LoadedRow& row_;
    std::vector<std::size_t> by_load_;  // ranks, lightest first
    std::vector<Pair> mine_, theirs_;
};

}  // namespace

double swap_pairs_down(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks, double target) {
    double largest = swap_down(row, replica_loads, ranks, target);
    const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
    if (slots < 2 || slots > most_rank_slots) return largest;
    while (largest > target) {
        LoadedRow loaded(row, replica_loads, ranks);
        if (!PairSwapper(loaded).improve(target)) break;
        largest = swap_down(row, replica_loads, ranks, target);
    }
    return largest;
}

}  // namespace eplb
