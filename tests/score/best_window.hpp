// The best window placement of a tiny problem, by trying everything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace eplb::test {

// Loads in units of 1/12, so that 1, 2, 3 and 4 replicas divide evenly: at most 4 ranks.
class BestWindow {
  public:
    static constexpr std::int64_t unit = 12;

    BestWindow(std::span<const std::int64_t> totals, int ranks, int slots_per_rank)
        : totals_(totals.begin(), totals.end()),
          replicas_(totals.size(), 1),
          load_(static_cast<std::size_t>(ranks)),
          free_(static_cast<std::size_t>(ranks), slots_per_rank) {
        std::sort(totals_.rbegin(), totals_.rend());
        choose_replicas(0, ranks * slots_per_rank - static_cast<int>(totals.size()));
    }

    // Least possible largest rank load over all replica counts and all legal placements, times 12.
    std::int64_t largest_load() const { return best_; }

  private:
    void choose_replicas(std::size_t expert, int extra) {
        if (expert == totals_.size()) {
            if (extra == 0) place(0, 0, replicas_[0]);
            return;
        }
        for (int more = 0; more <= std::min(extra, static_cast<int>(load_.size()) - 1); ++more) {
            replicas_[expert] = 1 + more;
            choose_replicas(expert + 1, extra - more);
        }
    }

    // `left` more replicas of `expert` to ranks from `first_rank` on: each rank gets at most one.
    void place(std::size_t expert, std::size_t first_rank, int left) {
        if (left == 0) {
            if (expert + 1 == totals_.size()) {
                best_ = std::min(best_, *std::max_element(load_.begin(), load_.end()));
            } else {
                place(expert + 1, 0, replicas_[expert + 1]);
            }
            return;
        }
        const std::int64_t load = totals_[expert] * (unit / replicas_[expert]);
        for (std::size_t rank = first_rank; rank < load_.size(); ++rank) {
            if (free_[rank] == 0 || load_[rank] + load >= best_) continue;
            load_[rank] += load;
            --free_[rank];
            place(expert, rank + 1, left - 1);
            load_[rank] -= load;
            ++free_[rank];
        }
    }

    std::vector<std::int64_t> totals_;
    std::vector<int> replicas_;
    std::vector<std::int64_t> load_;
    std::vector<int> free_;
    std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace eplb::test
