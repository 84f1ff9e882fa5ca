// The best step placement of a tiny problem without redundancy, by trying everything.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "core/counts.hpp"

namespace eplb::test {

// E = ranks * S; a few thousand placements at most.
class BestStep {
  public:
    BestStep(const LayerCounts& counts, int ranks)
        : counts_(counts),
          slots_per_rank_(counts.experts / ranks),
          held_(static_cast<std::size_t>(ranks)),
          load_(static_cast<std::size_t>(ranks), std::vector<std::int64_t>(static_cast<std::size_t>(counts.slots))) {
        place(0);
        std::int64_t total = 0;
        for (const std::int64_t count : counts.values) total += count;
        balancedness_ = static_cast<double>(best_ * ranks) / static_cast<double>(total);
    }

    double balancedness() const { return balancedness_; }

  private:
    void place(int expert) {
        if (expert == counts_.experts) {
            std::int64_t sum = 0;
            for (int t = 0; t < counts_.slots; ++t) {
                std::int64_t largest = 0;
                for (const auto& load : load_) largest = std::max(largest, load[static_cast<std::size_t>(t)]);
                sum += largest;
            }
            best_ = std::min(best_, sum);
            return;
        }
        for (std::size_t rank = 0; rank < load_.size(); ++rank) {
            const bool empty = held_[rank] == 0;
            if (held_[rank] == slots_per_rank_) continue;
            move(rank, expert, 1);
            place(expert + 1);
            move(rank, expert, -1);
            if (empty) break;  // empty ranks are all the same
        }
    }

    void move(std::size_t rank, int expert, int sign) {
        held_[rank] += sign;
        for (int t = 0; t < counts_.slots; ++t) {
            load_[rank][static_cast<std::size_t>(t)] += sign * counts_.row(t)[static_cast<std::size_t>(expert)];
        }
    }

    const LayerCounts& counts_;
    int slots_per_rank_;
    std::vector<int> held_;                        // [R]
    std::vector<std::vector<std::int64_t>> load_;  // [R][T]
    std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
    double balancedness_ = 1;
};

}  // namespace eplb::test
