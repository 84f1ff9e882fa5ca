#include "fit/pair_replicas.hpp"

#include <algorithm>
#include <limits>

#include "core/random.hpp"
#include "fit/cooling.hpp"
#include "fit/order.hpp"

namespace eplb {
namespace {

// Low: the greedy counts are a good start, and each move changes few pairs. 0.0003 to 0.005 are alike.
constexpr double pair_temperature = 0.0005;  // of the mean rank load
constexpr int most_pair_draws = 8;

class PairReplicas {
  public:
    PairReplicas(std::span<const std::int64_t> totals, std::vector<int> replicas, int ranks, std::uint64_t seed)
        : replicas_(std::move(replicas)), best_replicas_(replicas_), ranks_(ranks), random_(seed) {
        double total = 0;
        for (const std::int64_t count : totals) total += static_cast<double>(count);
        for (const std::int64_t count : totals) weights_.push_back(static_cast<double>(count) / total * ranks);
        for (std::size_t e = 0; e < totals.size(); ++e) loads_.push_back(weights_[e] / replicas_[e]);
        order_ = descending_order(loads_);
        now_ = evaluate();
        best_ = now_.largest;
    }

    void run(std::int64_t proposals) {
        double temperature = pair_temperature;
        std::int64_t done = 0;
        for (int stage = 1; stage <= cooling_stages; ++stage, temperature *= cooling_factor) {
            for (; done < proposals * stage / cooling_stages; ++done) propose(temperature);
        }
    }

    std::vector<int> take_replicas() { return std::move(best_replicas_); }

  private:
    struct Pairs {
        double sum = 0;                    // of the 32nd powers of the pair loads
        double largest = 0;                // pair load
        std::size_t heavy = 0, light = 0;  // experts of the first pair of that load
    };

    Pairs evaluate() const {
        Pairs pairs;
        std::size_t i = 0, j = order_.size() - 1;
        int left_i = replicas_at(i), left_j = replicas_at(j);
        for (int left = ranks_;;) {
            const auto heavy = static_cast<std::size_t>(order_[i]), light = static_cast<std::size_t>(order_[j]);
            const int alike = i == j ? left : std::min(left_i, left_j);  // the last expert pairs with itself
            const double load = loads_[heavy] + loads_[light];
            pairs.sum += alike * power32(load);
            if (load > pairs.largest) pairs = {pairs.sum, load, heavy, light};
            left -= alike;
            if (left == 0) break;
            left_i -= alike;
            left_j -= alike;
            if (left_i == 0) left_i = replicas_at(++i);
            if (left_j == 0) left_j = replicas_at(--j);
        }
        return pairs;
    }

    int replicas_at(std::size_t place) const { return replicas_[static_cast<std::size_t>(order_[place])]; }

    void propose(double temperature) {
        const auto experts = static_cast<std::uint32_t>(weights_.size());
        const auto kind = random_.below(4);  // half of the time, one of the heaviest pair gets a replica more
        const std::size_t gains = kind == 0 ? now_.heavy : kind == 1 ? now_.light : random_.below(experts);
        std::size_t loses = random_.below(experts);
        for (int i = 1; i < most_pair_draws && replicas_[loses] == 1; ++i) loses = random_.below(experts);
        if (gains == loses || replicas_[loses] == 1 || replicas_[gains] == ranks_) return;
        change(gains, 1);
        change(loses, -1);
        const Pairs next = evaluate();
        if (next.sum <= now_.sum || next.sum < power32(root32(now_.sum) + temperature * draw_exponential(random_))) {
            now_ = next;
            if (now_.largest < best_) {
                best_ = now_.largest;
                best_replicas_ = replicas_;
            }
        } else {
            change(gains, -1);
            change(loses, 1);
        }
    }

    void change(std::size_t expert, int by) {
        replicas_[expert] += by;
        loads_[expert] = weights_[expert] / replicas_[expert];
        auto at = std::find(order_.begin(), order_.end(), static_cast<int>(expert));
        const auto before = [&](int a, int b) {
            const double x = loads_[static_cast<std::size_t>(a)], y = loads_[static_cast<std::size_t>(b)];
            return x != y ? x > y : a < b;
        };
        for (; at != order_.begin() && before(static_cast<int>(expert), *(at - 1)); --at) *at = *(at - 1);
        for (; at + 1 != order_.end() && before(*(at + 1), static_cast<int>(expert)); ++at) *at = *(at + 1);
        *at = static_cast<int>(expert);
    }

    std::vector<int> replicas_, best_replicas_;  // [E]
    int ranks_;
    std::vector<double> weights_, loads_;  // [E], relative to the mean rank load; of one replica
    std::vector<int> order_;               // experts by descending load of one replica
    Pairs now_;
    double best_ = 0;
    Random random_;
};

}  // namespace

std::vector<int> anneal_pair_replicas(std::span<const std::int64_t> totals, std::vector<int> replicas, int ranks,
                                      std::int64_t proposals, std::uint64_t seed) {
    PairReplicas search(totals, std::move(replicas), ranks, seed);
    search.run(proposals);
    return search.take_replicas();
}

}  // namespace eplb
