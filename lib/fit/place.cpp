#include "fit/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/error.hpp"
#include "fit/order.hpp"

namespace eplb {
namespace {

// The least loaded open rank, in log2(R) steps an update: a tournament whose keys are the bits of the load (they order
// as the loads do) with the rank in the lowest ones.
class Tournament {
  public:
    explicit Tournament(int ranks)
        : leaves_(std::bit_ceil(static_cast<std::size_t>(ranks))), mask_(leaves_ - 1), keys_(2 * leaves_, closed) {
        for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) keys_[leaves_ + rank] = rank;
        for (std::size_t node = leaves_ - 1; node > 0; --node) keys_[node] = keys_[2 * node];
    }

    bool any_open() const { return keys_[1] != closed; }
    std::size_t lightest() const { return static_cast<std::size_t>(keys_[1] & mask_); }
    void close(std::size_t rank) { set(rank, closed); }
    void open(std::size_t rank, double load) { set(rank, (std::bit_cast<std::uint64_t>(load) & ~mask_) | rank); }

  private:
    static constexpr std::uint64_t closed = std::numeric_limits<std::uint64_t>::max();

    void set(std::size_t rank, std::uint64_t key) {
        std::size_t node = leaves_ + rank;
        keys_[node] = key;
        for (; node > 1; node /= 2) {
            key = std::min(key, keys_[node ^ 1]);
            keys_[node / 2] = key;
        }
    }

    std::size_t leaves_;
    std::uint64_t mask_;
    std::vector<std::uint64_t> keys_;
};

class Placer {
  public:
    Placer(std::span<const double> replica_loads, int ranks, int slots_per_rank)
        : replica_loads_(replica_loads),
          ranks_(static_cast<std::size_t>(ranks)),
          slots_(static_cast<std::size_t>(slots_per_rank)),
          tournament_(ranks),
          row_(ranks_ * slots_),
          used_(ranks_),
          load_(ranks_) {}

    void place_all(int expert, int replicas) {
        const double load = replica_loads_[static_cast<std::size_t>(expert)];
        if (replicas == 1 && tournament_.any_open()) {
            const std::size_t rank = tournament_.lightest();
            put(rank, expert, load);
            reopen(rank);
            return;
        }
        holders_.clear();  // closed until the last replica is placed: no rank gets two
        for (int replica = 0; replica < replicas; ++replica) {
            if (!tournament_.any_open()) {
                exchange(expert, load);
                continue;
            }
            const std::size_t rank = tournament_.lightest();
            put(rank, expert, load);
            tournament_.close(rank);
            holders_.push_back(rank);
        }
        for (const std::size_t rank : holders_) reopen(rank);
    }

    std::vector<ExpertId> take_row() { return std::move(row_); }

  private:
    void put(std::size_t rank, int expert, double load) {
        row_[rank * slots_ + used_[rank]++] = ExpertId{expert};
        load_[rank] += load;
    }

    void reopen(std::size_t rank) {
        if (used_[rank] < slots_) {
            tournament_.open(rank, load_[rank]);
        } else {
            tournament_.close(rank);
        }
    }

    bool holds(std::size_t rank, ExpertId expert) const {
        const auto first = row_.begin() + static_cast<std::ptrdiff_t>(rank * slots_);
        const auto last = first + static_cast<std::ptrdiff_t>(used_[rank]);
        return std::find(first, last, expert) != last;
    }

    // Every rank with a free slot holds `expert`. Then some rank q does not (replicas <= ranks), so q is full; and the
    // free rank r holds at most S-1 experts, one of which q lacks, so at least two of q's S experts are not on r: one
    // of them moves to r and `expert` takes its slot. Chosen is the move with the smallest larger load of the two.
    void exchange(int expert, double load) {
        std::size_t free = ranks_;
        for (const std::size_t rank : holders_) {
            if (used_[rank] < slots_ && (free == ranks_ || load_[rank] < load_[free])) free = rank;
        }
        double best = std::numeric_limits<double>::infinity();
        std::size_t best_slot = row_.size();
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            if (used_[rank] < slots_ || holds(rank, ExpertId{expert})) continue;
            for (std::size_t slot = rank * slots_; slot < (rank + 1) * slots_; ++slot) {
                if (holds(free, row_[slot])) continue;
                const double moved = replica_loads_[static_cast<std::size_t>(row_[slot].value)];
                const double larger = std::max(load_[free] + moved, load_[rank] + (load - moved));
                if (larger < best) {
                    best = larger;
                    best_slot = slot;
                }
            }
        }
        const ExpertId moved = row_[best_slot];
        const double moved_load = replica_loads_[static_cast<std::size_t>(moved.value)];
        put(free, moved.value, moved_load);
        row_[best_slot] = ExpertId{expert};
        load_[best_slot / slots_] += load - moved_load;
    }

    std::span<const double> replica_loads_;
    std::size_t ranks_, slots_;
    Tournament tournament_;
    std::vector<ExpertId> row_;         // the first used_[r] slots of rank r are filled
    std::vector<std::size_t> used_;     // [R]
    std::vector<double> load_;          // [R]
    std::vector<std::size_t> holders_;  // ranks that hold the expert being placed and had a free slot for it
};

}  // namespace

std::vector<ExpertId> place(std::span<const double> replica_loads, std::span<const int> replicas, int ranks,
                            int slots_per_rank) {
    std::int64_t total = 0;
    bool possible = replicas.size() == replica_loads.size();
    for (const int count : replicas) {
        possible = possible && count >= 1 && count <= ranks;
        total += count;
    }
    if (!possible || total != static_cast<std::int64_t>(ranks) * slots_per_rank) {
        throw Error(ErrorCode::internal, "place",
                    fmt::format("{} replicas of {} experts do not fill {} ranks x {} slots", total, replicas.size(),
                                ranks, slots_per_rank));
    }
    Placer placer(replica_loads, ranks, slots_per_rank);
    for (const int expert : descending_order(replica_loads)) {
        placer.place_all(expert, replicas[static_cast<std::size_t>(expert)]);
    }
    return placer.take_row();
}

std::vector<double> even_replica_loads(std::span<const std::int64_t> weights, std::span<const int> replicas) {
    std::vector<double> loads(weights.size());
    for (std::size_t e = 0; e < loads.size(); ++e) {
        loads[e] = static_cast<double>(weights[e]) / static_cast<double>(replicas[e]);
    }
    return loads;
}

}  // namespace eplb
