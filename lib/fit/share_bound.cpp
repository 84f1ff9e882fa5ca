#include "fit/share_bound.hpp"

#include <algorithm>
#include <queue>
#include <vector>

#include "core/wide.hpp"

namespace eplb {
namespace {

// Experts on the left, ranks on the right, replicas between them; capacities in 128 bits, so that nothing rounds.
class ReplicaFlow {
  public:
    ReplicaFlow(std::span<const ExpertId> row, std::size_t experts, std::size_t ranks)
        : edges_of_(experts + ranks), experts_(experts) {
        const std::size_t slots_per_rank = row.size() / ranks;
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            const auto expert = static_cast<std::size_t>(row[slot].value), rank = experts + slot / slots_per_rank;
            edges_of_[expert].push_back(edges_.size());
            edges_of_[rank].push_back(edges_.size());
            edges_.push_back({expert, rank, 0});
        }
    }

    // Sends as much of supply[E] as the ranks take when each takes `capacity`; returns what stays behind.
    int128 run(std::span<const int128> supply, int128 capacity) {
        supply_.assign(supply.begin(), supply.end());
        room_.assign(edges_of_.size() - experts_, capacity);
        for (Edge& edge : edges_) edge.flow = 0;
        while (level()) {
            next_.assign(edges_of_.size(), 0);
            for (std::size_t expert = 0; expert < experts_; ++expert) {
                while (supply_[expert] > 0) {
                    const int128 sent = push(expert, supply_[expert]);
                    if (sent == 0) break;
                    supply_[expert] -= sent;
                }
            }
        }
        int128 left = 0;
        for (const int128 amount : supply_) left += amount;
        return left;
    }

    // After run(): whether a node can still be reached from an expert with supply left.
    bool reached(std::size_t node) const { return level_[node] >= 0; }

  private:
    struct Edge {
        std::size_t expert, rank;
        int128 flow;
    };

    // Distances from the experts with supply left; false when no rank with room is reached.
    bool level() {
        level_.assign(edges_of_.size(), -1);
        std::queue<std::size_t> open;
        for (std::size_t expert = 0; expert < experts_; ++expert) {
            if (supply_[expert] > 0) {
                level_[expert] = 0;
                open.push(expert);
            }
        }
        bool found = false;
        for (; !open.empty(); open.pop()) {
            const std::size_t node = open.front();
            found = found || (node >= experts_ && room_[node - experts_] > 0);
            for (const std::size_t index : edges_of_[node]) {
                const Edge& edge = edges_[index];
                const bool forward = node < experts_;
                const std::size_t other = forward ? edge.rank : edge.expert;
                if (level_[other] >= 0 || (!forward && edge.flow == 0)) continue;
                level_[other] = level_[node] + 1;
                open.push(other);
            }
        }
        return found;
    }

    int128 push(std::size_t node, int128 amount) {
        if (node >= experts_ && room_[node - experts_] > 0) {
            const int128 sent = std::min(amount, room_[node - experts_]);
            room_[node - experts_] -= sent;
            return sent;
        }
        for (std::size_t& i = next_[node]; i < edges_of_[node].size(); ++i) {
            Edge& edge = edges_[edges_of_[node][i]];
            const bool forward = node < experts_;
            const std::size_t other = forward ? edge.rank : edge.expert;
            const int128 most = forward ? amount : std::min(amount, edge.flow);
            if (most == 0 || level_[other] != level_[node] + 1) continue;
            const int128 sent = push(other, most);
            if (sent == 0) continue;
            edge.flow += forward ? sent : -sent;
            return sent;
        }
        return 0;
    }

    std::vector<std::vector<std::size_t>> edges_of_;
    std::vector<Edge> edges_;
    std::size_t experts_;
    std::vector<int128> supply_, room_;
    std::vector<int> level_;
    std::vector<std::size_t> next_;
};

}  // namespace

double window_share_optimum(std::span<const std::int64_t> totals, std::span<const ExpertId> row, int ranks) {
    ReplicaFlow flow(row, totals.size(), static_cast<std::size_t>(ranks));
    int128 total = 0;
    for (const std::int64_t count : totals) total += count;
    // The guess is tokens / holders: at first all tokens on all ranks, then those of a cut on the ranks they reach.
    int128 tokens = total, holders = ranks;
    std::vector<int128> supply(totals.size());
    for (;;) {
        for (std::size_t expert = 0; expert < totals.size(); ++expert) supply[expert] = holders * totals[expert];
        if (flow.run(supply, tokens) == 0) break;
        int128 cut_tokens = 0, cut_holders = 0;
        for (std::size_t expert = 0; expert < totals.size(); ++expert) {
            if (flow.reached(expert)) cut_tokens += totals[expert];
        }
        for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
            if (flow.reached(totals.size() + rank)) ++cut_holders;
        }
        tokens = cut_tokens;
        holders = cut_holders;
    }
    return static_cast<double>(tokens * ranks) / static_cast<double>(holders) / static_cast<double>(total);
}

double step_share_optimum(const LayerCounts& counts, std::span<const ExpertId> row, int ranks) {
    double busiest = 0, total = 0;
    for (int slot = 0; slot < counts.slots; ++slot) {
        const auto slot_total = static_cast<double>(counts.slot_total(slot));
        if (slot_total == 0) continue;
        busiest += slot_total * window_share_optimum(counts.row(slot), row, ranks);
        total += slot_total;
    }
    return busiest / total;
}

}  // namespace eplb
