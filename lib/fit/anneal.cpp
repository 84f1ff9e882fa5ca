#include "fit/anneal.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "fit/acceptance.hpp"
#include "fit/rank_energy.hpp"

namespace eplb {
namespace {

class Annealer {
  public:
    Annealer(const SlotShares& shares, std::span<const ExpertId> start, int ranks, const AnnealOptions& options)
        : options_(options),
          energy_(shares, start, ranks, options.sharpness),
          random_(options.seed),
          ranks_(static_cast<std::uint32_t>(ranks)),
          slots_(static_cast<std::uint32_t>(energy_.slots_per_rank())),
          record_slots_(static_cast<std::uint32_t>(shares.slots)),
          costs_{ranks, energy_.slots_per_rank(), shares.experts, shares.vectors},
          best_(start.begin(), start.end()),
          best_step_(energy_.step()) {
        spent_ = costs_.rebase();
    }

    std::vector<ExpertId> run() {
        const Cooling cooling;
        const double factor = cooling.factor(), floor_share = 1.0 / ranks_;
        double k = cooling.first, scale = 0;
        for (int stage = 0; stage < Cooling::stages; ++stage, k *= factor) {
            if (stage % stages_per_check == 0) {
                renew(rebases_at(stage));
                if (stage >= first_kept_stage) keep_best();
                scale = std::max(energy_.value() - energy_.floor(), 0.0) * floor_share;
            }
            temperature_ = static_cast<float>(k * scale);
            const Work until = options_.work / Cooling::stages * (stage + 1);
            while (spent_ < until) stage < first_scan_stage ? propose() : scan();
        }
        renew(false);
        keep_best();
        return best_;
    }

  private:
    // Where in the 256 stages what happens. While it is hot, single random swaps: many are accepted, and a scan would
    // throw all but one away. Then the best swap of a pair of ranks: S^2 swaps at a fifth of the price of each.
    static constexpr int first_scan_stage = 77;               // 30 % of the work
    static constexpr int stages_per_check = 8;                // temperature scale renewed, drift removed
    static constexpr int rebase_stages[] = {40, 88, 152, 8};  // in the order of their use when work is short
    static constexpr int first_kept_stage = 128;              // rows met before do not win
    static constexpr int rebase_part = 16;                    // a rebase may cost 1/16 of the work
    static constexpr int hot_of_1024 = 960;      // proposals that start at the hottest rank of a random record slot
    static constexpr int swaps_per_refresh = 8;  // the sums over the ranks and the hottest ranks are renewed

    bool rebases_at(int stage) const {
        const auto affordable =
            std::clamp<Work>(options_.work / (rebase_part * costs_.rebase()), 1, std::size(rebase_stages));
        return std::find(std::begin(rebase_stages), std::begin(rebase_stages) + affordable, stage) !=
               std::begin(rebase_stages) + affordable;
    }

    void renew(bool rebase) {
        rebase ? energy_.rebase() : energy_.recompute();
        spent_ += rebase ? costs_.rebase() : costs_.recompute();
    }

    void keep_best() {
        const double step = energy_.step();
        if (!(step < best_step_)) return;
        best_step_ = step;
        best_ = energy_.row();
    }

    bool accepted(float change) { return change < temperature_ * exponential_variate(random_); }

    int pick_rank() {
        if (random_.below(1024) >= hot_of_1024) return static_cast<int>(random_.below(ranks_));
        return energy_.hottest_rank(static_cast<int>(random_.below(record_slots_)));
    }

    int pick_other(int rank) {
        const auto other = static_cast<int>(random_.below(ranks_ - 1));
        return other + (other >= rank ? 1 : 0);
    }

    int pick_index() { return static_cast<int>(random_.below(slots_)); }

    void swap(const Swap& move) {
        energy_.apply(move);
        spent_ += costs_.swap();
        if (++swaps_ % swaps_per_refresh != 0) return;
        energy_.refresh();
        spent_ += costs_.refresh();
    }

    void propose() {
        if (wants_replica_move()) propose_replica_move();
        Swap move;
        move.rank_a = pick_rank();
        move.rank_b = pick_other(move.rank_a);
        move.index_a = pick_index();
        move.index_b = pick_index();
        spent_ += costs_.proposal();
        if (energy_.allowed(move) && accepted(energy_.change(move))) swap(move);
    }

    void scan() {
        if (wants_replica_move()) propose_replica_move();
        const int rank = pick_rank(), other = pick_other(rank);
        Swap move;
        float change = 0;
        const bool found = energy_.best_swap(rank, other, move, change);
        spent_ += costs_.scan(energy_.swaps_looked_at());
        if (found && accepted(change)) swap(move);
    }

    bool wants_replica_move() { return options_.replica_share > 0 && random_.unit() < options_.replica_share; }

    // A random slot whose expert can spare a replica turns into an expert of a rank that is likely hot.
    void propose_replica_move() {
        ReplicaMove move;
        move.rank = static_cast<int>(random_.below(ranks_));
        move.index = pick_index();
        const int source = pick_rank();
        move.gaining = energy_.expert_at(source, pick_index());
        spent_ += costs_.proposal();
        if (!energy_.allowed(move)) return;
        const int replicas =
            energy_.replicas(move.gaining) + energy_.replicas(energy_.expert_at(move.rank, move.index));
        spent_ += costs_.replica_proposal(replicas);
        if (!accepted(energy_.change(move))) return;
        energy_.apply(move);
        spent_ += costs_.replica_move(replicas);
    }

    const AnnealOptions& options_;
    RankEnergy energy_;
    Random random_;
    std::uint32_t ranks_, slots_, record_slots_;
    WorkModel costs_;
    std::vector<ExpertId> best_;
    double best_step_;
    Work spent_ = 0;
    float temperature_ = 0;
    int swaps_ = 0;
};

}  // namespace

std::vector<ExpertId> anneal(const SlotShares& shares, std::span<const ExpertId> start, int ranks,
                             const AnnealOptions& options) {
    const bool swaps_help = ranks > 1 && static_cast<int>(start.size()) > ranks;
    if (ranks == 1 || shares.slots == 0 || (!swaps_help && options.replica_share == 0)) {
        return {start.begin(), start.end()};
    }
    return Annealer(shares, start, ranks, options).run();
}

}  // namespace eplb
