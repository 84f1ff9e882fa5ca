#include "fit/window.hpp"

#include <algorithm>
#include <limits>

#include "core/layout.hpp"
#include "core/random.hpp"
#include "fit/pair_replicas.hpp"
#include "fit/peaks.hpp"
#include "fit/place.hpp"
#include "fit/replicate.hpp"
#include "fit/swap.hpp"
#include "fit/swap_pairs.hpp"
#include "fit/window_anneal.hpp"
#include "score/bounds.hpp"

namespace eplb {
namespace {

constexpr int small_problem = 64;  // slots
constexpr double small_gap = 1e-6;
constexpr std::int64_t small_proposals = 4000;

// A row under construction for one layer, the best one so far.
class WindowFitter {
  public:
    WindowFitter(std::span<const std::int64_t> totals, int ranks, int slots_per_rank, double goal_gap)
        : totals_(totals), ranks_(ranks), slots_per_rank_(slots_per_rank) {
        double total = 0;
        for (const std::int64_t count : totals) total += static_cast<double>(count);
        mean_ = total / ranks;
        result_.bound = window_lower_bound(totals, ranks, slots_per_rank, PairBound::skip);
        goal_ = result_.bound * (1 + goal_gap) * mean_;
    }

    bool done() const { return largest_ <= goal_; }

    template <typename Weight>
    void construct(std::span<const Weight> replica_weights) {
        construct(replicate(replica_weights, ranks_, ranks_ * slots_per_rank_));
    }

    void exchange_pairs(std::vector<ExpertId> row) {
        const auto loads = even_replica_loads(totals_, replica_counts(row, static_cast<int>(totals_.size())));
        const double largest = swap_pairs_down(row, loads, ranks_, goal_);
        keep(std::move(row), largest);
    }
    void exchange_pairs() { exchange_pairs(result_.row); }

    void anneal(std::int64_t proposals, std::uint64_t seed) {
        AnnealedRows rows = anneal_window(result_.row, totals_, ranks_, goal_ / mean_, proposals, seed);
        exchange_pairs(std::move(rows.best));
        if (!done()) exchange_pairs(std::move(rows.last));
    }

    void anneal_replicas_of_pairs(std::int64_t proposals, std::uint64_t seed) {
        auto replicas = replica_counts(result_.row, static_cast<int>(totals_.size()));
        construct(anneal_pair_replicas(totals_, std::move(replicas), ranks_, proposals, seed));
    }

    WindowRow take() {
        result_.balancedness = largest_ / mean_;
        return std::move(result_);
    }

  private:
    void construct(const std::vector<int>& replicas) {
        const auto loads = even_replica_loads(totals_, replicas);
        auto row = place(loads, replicas, ranks_, slots_per_rank_);
        const double largest = swap_down(row, loads, ranks_, goal_);
        keep(std::move(row), largest);
    }

    void keep(std::vector<ExpertId> row, double largest) {
        if (!(largest < largest_)) return;
        result_.row = std::move(row);
        largest_ = largest;
    }

    std::span<const std::int64_t> totals_;
    int ranks_, slots_per_rank_;
    double mean_ = 0, goal_ = 0;  // rank loads
    double largest_ = std::numeric_limits<double>::infinity();
    WindowRow result_;
};

}  // namespace

WindowGoal window_goal(Effort effort) {
    switch (effort) {
        case Effort::fast:
            return {1e-3, 0};
        case Effort::standard:
            return {3e-4, 20'000};
        case Effort::thorough:
            return {1e-6, 500'000};
    }
    return {};
}

WindowRow fit_window_row(std::span<const std::int64_t> totals, std::span<const double> replica_weights, int ranks,
                         int slots_per_rank, const WindowGoal& goal, std::uint64_t seed) {
    const bool small = ranks * slots_per_rank <= small_problem;
    const std::int64_t proposals = small ? std::max(goal.proposals, small_proposals) : goal.proposals;
    WindowFitter fitter(totals, ranks, slots_per_rank, small ? small_gap : goal.gap);
    if (!replica_weights.empty()) fitter.construct(replica_weights);
    if (!fitter.done()) fitter.construct(totals);
    if (!fitter.done()) fitter.exchange_pairs();
    if (fitter.done() || proposals == 0) return fitter.take();
    // With two slots a rank the counts decide. A proposal of theirs costs about ten times one of the other search,
    // which then still gains only where it can undo everything.
    if (slots_per_rank == 2) fitter.anneal_replicas_of_pairs(proposals / 4, seed);
    if ((slots_per_rank != 2 || small) && !fitter.done()) fitter.anneal(proposals, seed);
    return fitter.take();
}

WindowRow fit_window_layer(const FitProblem& problem, int layer, std::span<const std::int64_t> totals) {
    const LayerCounts& counts = problem.layers[static_cast<std::size_t>(layer)];
    const auto weights = counts.slots > 1 ? peak_weights(counts) : std::vector<double>{};  // of one slot: its counts
    return fit_window_row(totals, weights, problem.geometry.ranks, problem.geometry.slots_per_rank,
                          window_goal(problem.effort), stream_seed(problem.seed, static_cast<std::uint64_t>(layer)));
}

double even_out_window(std::span<ExpertId> row, std::span<const std::int64_t> totals, int ranks, double largest) {
    const auto loads = even_replica_loads(totals, replica_counts(row, static_cast<int>(totals.size())));
    return swap_pairs_down(row, loads, ranks, largest);
}

}  // namespace eplb
