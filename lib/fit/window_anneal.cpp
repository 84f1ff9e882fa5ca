#include "fit/window_anneal.hpp"

#include <algorithm>
#include <limits>

#include "core/layout.hpp"
#include "core/random.hpp"
#include "fit/cooling.hpp"

namespace eplb {
namespace {

// The energy is the 32-norm of the rank loads relative to the mean, F = (sum_r L_r^32)^(1/32): close to the maximum,
// and it still feels the ranks below. Whether F grows by at most d is asked as whether the sum stays below (F + d)^32,
// so no proposal needs a root.
// The temperature falls to a hundredth. In a large problem a good start is refined: it is a share of what is missing to
// balance, (F - its least possible value) / R. In a small one anything may have to be undone: it is a share of the
// mean.
constexpr double first_temperature = 0.15, first_temperature_small = 0.5;
constexpr std::size_t few_slots = 64;  // slots
constexpr std::int64_t block = 64;     // proposals between two looks at F
constexpr std::uint32_t replica_moves_of_64 = 16;
constexpr int most_draws = 8;

class WindowAnnealer {
  public:
    WindowAnnealer(std::span<const ExpertId> row, std::span<const std::int64_t> totals, int ranks, std::uint64_t seed)
        : row_(row.begin(), row.end()),
          best_row_(row_),
          ranks_(static_cast<std::size_t>(ranks)),
          slots_(row.size() / ranks_),
          replicas_(replica_counts(row, static_cast<int>(totals.size()))),
          holders_(totals.size()),
          load_(ranks_),
          power_(ranks_),
          change_(ranks_),
          random_(seed) {
        double total = 0;
        for (const std::int64_t count : totals) total += static_cast<double>(count);
        for (const std::int64_t count : totals) weights_.push_back(static_cast<double>(count) / total * ranks);
        for (std::size_t slot = 0; slot < row_.size(); ++slot) holders_[expert_at(slot)].push_back(slot);
        for (std::size_t rank = 0; rank < ranks_; ++rank) resum(rank);
        note_move();
    }

    // `target` relative to the mean.
    void run(double target, std::int64_t proposals) {
        const bool small = row_.size() <= few_slots;
        const double perfect = root32(static_cast<double>(ranks_));
        double share = small ? first_temperature_small : first_temperature / static_cast<double>(ranks_);
        std::int64_t done = 0;
        for (int stage = 1; stage <= cooling_stages; ++stage, share *= cooling_factor) {
            while (done < proposals * stage / cooling_stages) {
                temperature_ = small ? share : share * (energy_ - perfect);
                for (std::int64_t i = 0; i < block; ++i, ++done) {
                    if (random_.below(64) < replica_moves_of_64) {
                        propose_replica_move();
                    } else {
                        propose_exchange();
                    }
                }
                if (best_load_ <= target) return;
            }
        }
    }

    AnnealedRows take_rows() { return {std::move(best_row_), std::move(row_)}; }

  private:
    std::size_t expert_at(std::size_t slot) const { return static_cast<std::size_t>(row_[slot].value); }
    std::size_t rank_of(std::size_t slot) const { return slot / slots_; }
    double replica_load(std::size_t expert, int replicas) const { return weights_[expert] / replicas; }
    double replica_load(std::size_t expert) const { return replica_load(expert, replicas_[expert]); }
    std::size_t draw(std::size_t bound) { return random_.below(static_cast<std::uint32_t>(bound)); }
    std::size_t draw_slot() { return draw(row_.size()); }
    std::size_t draw_hot_slot() { return hottest_ * slots_ + draw(slots_); }
    bool accepts(double change) {
        return change <= 0 || sum_ + change < power32(energy_ + temperature_ * draw_exponential(random_));
    }

    bool holds(std::size_t rank, std::size_t expert) const {
        return std::any_of(holders_[expert].begin(), holders_[expert].end(),
                           [&](std::size_t slot) { return rank_of(slot) == rank; });
    }

    void resum(std::size_t rank) {
        double sum = 0;
        for (std::size_t slot = rank * slots_; slot < (rank + 1) * slots_; ++slot) sum += replica_load(expert_at(slot));
        load_[rank] = sum;
        power_[rank] = power32(sum);
    }

    void note_move() {
        sum_ = 0;
        for (const double p : power_) sum_ += p;
        energy_ = root32(sum_);
        hottest_ = static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
        if (load_[hottest_] < best_load_) {
            best_load_ = load_[hottest_];
            best_row_ = row_;
        }
    }

    void propose_exchange() {
        const std::size_t slot = random_.below(2) == 0 ? draw_hot_slot() : draw_slot(), other = draw_slot();
        const std::size_t rank = rank_of(slot), other_rank = rank_of(other);
        const std::size_t expert = expert_at(slot), other_expert = expert_at(other);
        if (rank == other_rank || holds(other_rank, expert) || holds(rank, other_expert)) return;
        const double moved = replica_load(expert) - replica_load(other_expert);
        const double change =
            power32(load_[rank] - moved) + power32(load_[other_rank] + moved) - power_[rank] - power_[other_rank];
        if (!accepts(change)) return;
        *std::find(holders_[expert].begin(), holders_[expert].end(), slot) = other;
        *std::find(holders_[other_expert].begin(), holders_[other_expert].end(), other) = slot;
        std::swap(row_[slot], row_[other]);
        resum(rank);
        resum(other_rank);
        note_move();
    }

    // A slot of an expert with several replicas becomes one more replica of another expert.
    void propose_replica_move() {
        const std::size_t gains = random_.below(2) == 0 ? expert_at(draw_hot_slot()) : draw(weights_.size());
        std::size_t slot = draw_slot();
        for (int i = 1; i < most_draws && replicas_[expert_at(slot)] == 1; ++i) slot = draw_slot();
        const std::size_t loses = expert_at(slot);
        if (replicas_[loses] == 1 || replicas_[gains] == static_cast<int>(ranks_) || holds(rank_of(slot), gains))
            return;
        const double gained = replica_load(gains, replicas_[gains] + 1);
        const double lost = replica_load(loses, replicas_[loses] - 1);
        touched_.clear();
        for (const std::size_t s : holders_[gains]) touch(rank_of(s), gained - replica_load(gains));
        for (const std::size_t s : holders_[loses]) {
            touch(rank_of(s), (s == slot ? gained : lost) - replica_load(loses));
        }
        double change = 0;
        for (const std::size_t rank : touched_) {
            change += power32(load_[rank] + change_[rank]) - power_[rank];
            change_[rank] = 0;
        }
        if (!accepts(change)) return;
        std::erase(holders_[loses], slot);
        holders_[gains].push_back(slot);
        --replicas_[loses];
        ++replicas_[gains];
        row_[slot] = ExpertId{static_cast<int>(gains)};
        for (const std::size_t rank : touched_) resum(rank);
        note_move();
    }

    void touch(std::size_t rank, double change) {
        if (std::find(touched_.begin(), touched_.end(), rank) == touched_.end()) touched_.push_back(rank);
        change_[rank] += change;
    }

    std::vector<ExpertId> row_, best_row_;
    std::size_t ranks_, slots_;
    std::vector<int> replicas_;                      // [E]
    std::vector<std::vector<std::size_t>> holders_;  // [E], slots of each expert
    std::vector<double> weights_;                    // [E], relative to the mean rank load
    std::vector<double> load_, power_;               // [R], relative to the mean; load^32
    std::vector<double> change_;                     // [R], zero but inside a proposal
    std::vector<std::size_t> touched_;
    std::size_t hottest_ = 0;
    double best_load_ = std::numeric_limits<double>::infinity();
    double sum_ = 0, energy_ = 0;  // sum of power_, its root
    double temperature_ = 0;
    Random random_;
};

}  // namespace

AnnealedRows anneal_window(std::span<const ExpertId> row, std::span<const std::int64_t> totals, int ranks,
                           double target, std::int64_t proposals, std::uint64_t seed) {
    WindowAnnealer annealer(row, totals, ranks, seed);
    annealer.run(target, proposals);
    return annealer.take_rows();
}

}  // namespace eplb
