#include <algorithm>
#include <tuple>
#include <vector>

#include "fit/layers.hpp"
#include "fit/place.hpp"
#include "fit/policies.hpp"
#include "fit/replicate.hpp"

namespace eplb::policy {
namespace {

constexpr int most_exchanges = 256;  // a layer of 288 slots settles after a tenth of that

// What an exchange is judged by: the largest rank load, then the sum of their squares.
struct Balance {
    double peak = 0, squares = 0;
    bool operator<(const Balance& other) const { return std::tie(peak, squares) < std::tie(other.peak, other.squares); }
};

class PeakExchanges {
  public:
    PeakExchanges(std::span<ExpertId> row, std::span<const double> replica_loads, int ranks)
        : row_(row),
          replica_loads_(replica_loads),
          slots_(row.size() / static_cast<std::size_t>(ranks)),
          load_(static_cast<std::size_t>(ranks)) {
        for (std::size_t rank = 0; rank < load_.size(); ++rank) refresh(rank);
    }

    void run() {
        for (int exchange = 0; exchange < most_exchanges && improve(); ++exchange) {
        }
    }

  private:
    double slot_load(std::size_t slot) const { return replica_loads_[static_cast<std::size_t>(row_[slot].value)]; }

    void refresh(std::size_t rank) {
        load_[rank] = 0;
        for (std::size_t slot = rank * slots_; slot < (rank + 1) * slots_; ++slot) load_[rank] += slot_load(slot);
    }

    bool holds(std::size_t rank, ExpertId expert) const {
        const ExpertId* first = row_.data() + rank * slots_;
        return std::find(first, first + slots_, expert) != first + slots_;
    }

    // The best exchange of the busiest rank with any other one, if that is better than none.
    bool improve() {
        std::size_t busiest = 0;
        double second = 0, third = 0;  // largest loads of the others
        Balance best{load_[0], load_[0] * load_[0]};
        for (std::size_t rank = 1; rank < load_.size(); ++rank) {
            best.squares += load_[rank] * load_[rank];
            third = std::max(third, std::min(second, load_[rank]));
            second = std::max(second, std::min(best.peak, load_[rank]));
            if (load_[rank] > best.peak) {
                best.peak = load_[rank];
                busiest = rank;
            }
        }
        const double squares = best.squares;
        std::size_t best_from = row_.size(), best_to = row_.size();
        for (std::size_t other = 0; other < load_.size(); ++other) {
            if (other == busiest) continue;
            const double rest = load_[other] == second ? third : second;  // of equal ones, one is left
            for (std::size_t from = busiest * slots_; from < (busiest + 1) * slots_; ++from) {
                if (holds(other, row_[from])) continue;
                for (std::size_t to = other * slots_; to < (other + 1) * slots_; ++to) {
                    const double moved = slot_load(from) - slot_load(to);
                    const double lowered = load_[busiest] - moved, raised = load_[other] + moved;
                    const Balance balance{std::max({rest, lowered, raised}),
                                          squares - 2 * moved * (load_[busiest] - load_[other] - moved)};
                    if (!(balance < best) || holds(busiest, row_[to])) continue;
                    best = balance;
                    best_from = from;
                    best_to = to;
                }
            }
        }
        if (best_from == row_.size()) return false;
        std::swap(row_[best_from], row_[best_to]);
        refresh(best_from / slots_);
        refresh(best_to / slots_);
        return true;
    }

    std::span<ExpertId> row_;
    std::span<const double> replica_loads_;
    std::size_t slots_;
    std::vector<double> load_;  // [R]
};

}  // namespace

FitResult greedy_swap(const FitProblem& problem) {
    const Geometry& geometry = problem.geometry;
    FitResult result;
    result.layout = fit_rows(problem, [&](int, std::span<const std::int64_t> totals, std::span<ExpertId> row) {
        const auto replicas = replicate(totals, geometry.ranks, geometry.physical_slots());
        const auto loads = even_replica_loads(totals, replicas);
        std::ranges::copy(place(loads, replicas, geometry.ranks, geometry.slots_per_rank), row.begin());
        PeakExchanges(row, loads, geometry.ranks).run();
    });
    return result;
}

}  // namespace eplb::policy
