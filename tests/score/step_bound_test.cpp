#include "score/step_bound.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "core/layout.hpp"
#include "core/random.hpp"
#include "score/balance.hpp"
#include "score/bounds.hpp"

using namespace eplb;

namespace {

// The least step balancedness of all legal rows, ranks in any order, by trying them all.
class BruteForce {
  public:
    BruteForce(const LayerCounts& counts, int ranks, int slots_per_rank)
        : counts_(counts), ranks_(ranks), slots_per_rank_(slots_per_rank) {
        fill(0, 0);
    }
    double best() const { return best_; }

  private:
    // Experts of a rank ascend; rank by rank.
    void fill(int slot, int first) {
        if (slot == ranks_ * slots_per_rank_) return judge();
        for (int e = first; e < counts_.experts; ++e) {
            row_.push_back(ExpertId{e});
            fill(slot + 1, (slot + 1) % slots_per_rank_ == 0 ? 0 : e + 1);
            row_.pop_back();
        }
    }

    void judge() {
        const auto replicas = replica_counts(row_, counts_.experts);
        if (std::find(replicas.begin(), replicas.end(), 0) != replicas.end()) return;
        std::vector<double> shares;
        for (const ExpertId e : row_) shares.push_back(1.0 / replicas[static_cast<std::size_t>(e.value)]);
        best_ = std::min(best_, balance(counts_, row_, shares, ranks_)->step);
    }

    const LayerCounts& counts_;
    int ranks_, slots_per_rank_;
    std::vector<ExpertId> row_;
    double best_ = std::numeric_limits<double>::infinity();
};

// The least sum_t max(b_t, max_e W[t,e] / c_e) over all whole replica counts, b_t the window bound of slot t alone, as
// a ratio to sum_t mean_r: what the replica bound bounds from below, by trying all counts.
class ReplicaRelaxation {
  public:
    ReplicaRelaxation(const LayerCounts& counts, int ranks, int slots_per_rank) : counts_(counts), ranks_(ranks) {
        for (int t = 0; t < counts.slots; ++t) {
            const double slot_mean = static_cast<double>(counts.slot_total(t)) / ranks;
            mean_ += slot_mean;
            slot_bounds_.push_back(slot_mean *
                                   window_lower_bound(counts.row(t), ranks, slots_per_rank, PairBound::skip));
        }
        fill(ranks * slots_per_rank);
    }
    double best() const { return best_ / mean_; }

  private:
    void fill(int left) {
        if (static_cast<int>(replicas_.size()) == counts_.experts) {
            if (left == 0) judge();
            return;
        }
        for (int c = 1; c <= std::min(ranks_, left); ++c) {
            replicas_.push_back(c);
            fill(left - c);
            replicas_.pop_back();
        }
    }

    void judge() {
        double sum = 0;
        for (int t = 0; t < counts_.slots; ++t) {
            double largest = slot_bounds_[static_cast<std::size_t>(t)];
            for (std::size_t e = 0; e < replicas_.size(); ++e) {
                largest = std::max(largest, static_cast<double>(counts_.row(t)[e]) / replicas_[e]);
            }
            sum += largest;
        }
        best_ = std::min(best_, sum);
    }

    const LayerCounts& counts_;
    int ranks_;
    double mean_ = 0;
    std::vector<double> slot_bounds_;
    std::vector<int> replicas_;
    double best_ = std::numeric_limits<double>::infinity();
};

LayerCounts draw_counts(Random& random, int slots, int experts) {
    LayerCounts counts{slots, experts, {}};
    const auto kind = random.below(4);
    for (int i = 0; i < slots * experts; ++i) {
        std::int64_t count = random.below(kind == 0 ? 4 : 100);
        if (kind == 1 && random.below(4) == 0) count *= 20;
        if (kind == 2) count = i % experts == i / experts % experts ? 500 : count;
        counts.values.push_back(count);
    }
    counts.values[0] += 1;
    return counts;
}

}  // namespace

TEST_CASE("the step bound of slots that can all be balanced at once is 1") {
    CHECK(step_lower_bound({2, 4, {10, 10, 0, 0, 0, 0, 10, 10}}, 2, 2) == Approx(1).epsilon(1e-11));
    CHECK(step_lower_bound({2, 2, {0, 0, 0, 0}}, 2, 1) == 1);
}

TEST_CASE("one number of replicas for all slots raises the bound above that of every slot alone") {
    // 3 ranks x 1 slot, experts 0 and 1, one of them with two replicas. Each slot alone has a layout with 6 | 6 | 0,
    // whose largest load is 6 (mean 4); but the expert with one replica carries 12 in its slot: 6 + 12 against 4 + 4.
    const LayerCounts counts{2, 2, {12, 0, 0, 12}};
    CHECK(BruteForce(counts, 3, 1).best() == Approx(18.0 / 8));
    CHECK(step_lower_bound(counts, 3, 1) > 2.1);
    CHECK(step_lower_bound(counts, 3, 1) <= 18.0 / 8);
}

TEST_CASE("no step bound is above the optimum of tiny problems, and none is below the other bounds") {
    Random random(21);
    double gap = 0;
    int problems = 0;
    for (int round = 0; round < 600; ++round) {
        const int ranks = 1 + static_cast<int>(random.below(4)), slots = 1 + static_cast<int>(random.below(3));
        const int most = std::min(ranks * slots, slots == 1 ? 4 : 5);
        if (most < slots) continue;
        const int experts = slots + static_cast<int>(random.below(static_cast<std::uint32_t>(most - slots + 1)));
        const auto counts = draw_counts(random, 1 + static_cast<int>(random.below(5)), experts);
        const double best = BruteForce(counts, ranks, slots).best();
        const double bound = step_lower_bound(counts, ranks, slots);
        INFO("round " << round << ": " << ranks << " ranks x " << slots << ", " << experts << " experts");
        CHECK(bound <= best * (1 + 1e-14));
        CHECK(bound >= 1);
        CHECK(bound >= window_lower_bound(counts.expert_totals(), ranks, slots, PairBound::skip));
        gap += best / bound - 1;
        ++problems;
    }
    CHECK(problems > 400);
    CHECK(gap / problems < 0.12);
}

TEST_CASE("the duality of the step bound loses little of what the best replica counts force") {
    Random random(22);
    double gap = 0;
    int raised = 0;
    for (int round = 0; round < 300; ++round) {
        const int ranks = 2 + static_cast<int>(random.below(4)), slots = 1 + static_cast<int>(random.below(4));
        const int most = std::min(ranks * slots, 6);
        const int experts = slots + static_cast<int>(random.below(static_cast<std::uint32_t>(most - slots + 1)));
        const auto counts = draw_counts(random, 1 + static_cast<int>(random.below(12)), experts);
        const double forced = ReplicaRelaxation(counts, ranks, slots).best();
        const double window = window_lower_bound(counts.expert_totals(), ranks, slots, PairBound::skip);
        const double bound = step_lower_bound(counts, ranks, slots);
        INFO("round " << round << ": " << ranks << " ranks x " << slots << ", " << experts << " experts");
        CHECK(bound <= std::max(forced, window) * (1 + 1e-14));
        if (forced <= 1.001) continue;
        gap += std::max(0.0, forced / bound - 1);
        ++raised;
    }
    CHECK(raised > 100);
    CHECK(gap / raised < 0.03);
}
