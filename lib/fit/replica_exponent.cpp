#include "fit/replica_exponent.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "fit/replicate.hpp"
#include "fit/reproducible.hpp"

namespace eplb {
namespace {

constexpr int most_folds = 4, most_costed = 6, most_charged = 8;  // a fold's slots that are charged
constexpr int choices = 9;                                        // h = 0, 1/4, ..., 2

using Costs = std::array<double, choices>;

// Sums over some record slots from which mean shares and 8-norms follow.
struct Moments {
    double total = 0;
    std::vector<double> counts, eighths;  // sum_t W[t,e]; sum_t W[t] (W[t,e] / W[t])^8

    explicit Moments(std::size_t experts) : counts(experts), eighths(experts) {}

    void add(std::span<const std::int64_t> row, double slot_total) {
        total += slot_total;
        for (std::size_t e = 0; e < row.size(); ++e) {
            const auto count = static_cast<double>(row[e]);
            const double share = count / slot_total, square = share * share, fourth = square * square;
            counts[e] += count;
            eighths[e] += slot_total * (fourth * fourth);
        }
    }

    void add(const Moments& other) {
        total += other.total;
        for (std::size_t e = 0; e < counts.size(); ++e) {
            counts[e] += other.counts[e];
            eighths[e] += other.eighths[e];
        }
    }
};

// (sum_e c_e max(0, 1 + (y_te - m_e) / c_e)^16)^(1/16) in units of the mean rank load, times the slot's total.
double charge(std::span<const std::int64_t> row, double slot_total, std::span<const double> mean,
              std::span<const int> replicas, int ranks) {
    const double scale = ranks / slot_total;
    double sum = 0;
    for (std::size_t e = 0; e < row.size(); ++e) {
        const double deviation = static_cast<double>(row[e]) * scale - mean[e] * ranks;
        const double load = std::max(0.0, 1 + deviation / replicas[e]), square = load * load, fourth = square * square;
        const double eighth = fourth * fourth;
        sum += replicas[e] * (eighth * eighth);
    }
    return slot_total * std::sqrt(std::sqrt(std::sqrt(std::sqrt(sum))));
}

// Adds one layer's charges to costs[fold].
void charge_layer(const LayerCounts& counts, std::span<const int> slots, int ranks, int slots_per_rank,
                  std::span<Costs> costs) {
    const auto experts = static_cast<std::size_t>(counts.experts);
    const std::size_t folds = costs.size();
    std::vector<double> totals;
    std::vector<Moments> parts(folds, Moments(experts));
    for (std::size_t i = 0; i < slots.size(); ++i) {
        totals.push_back(static_cast<double>(counts.slot_total(slots[i])));
        if (totals[i] > 0) parts[i % folds].add(counts.row(slots[i]), totals[i]);
    }
    for (std::size_t fold = 0; fold < folds; ++fold) {
        Moments rest(experts);
        for (std::size_t other = 0; other < folds; ++other) {
            if (other != fold) rest.add(parts[other]);
        }
        if (rest.total == 0) continue;
        std::vector<double> mean(experts), norm(experts);
        for (std::size_t e = 0; e < experts; ++e) {
            mean[e] = rest.counts[e] / rest.total;
            norm[e] = std::sqrt(std::sqrt(std::sqrt(rest.eighths[e] / rest.total)));
        }
        for (int quarters = 0; quarters < choices; ++quarters) {
            const auto replicas = replicate(blend_weights(mean, norm, quarters), ranks, ranks * slots_per_rank);
            int charged = 0;
            for (std::size_t i = fold; i < slots.size() && charged < most_charged; i += folds) {
                if (totals[i] == 0) continue;
                costs[fold][static_cast<std::size_t>(quarters)] +=
                    charge(counts.row(slots[i]), totals[i], mean, replicas, ranks);
                ++charged;
            }
        }
    }
}

}  // namespace

std::vector<double> blend_weights(std::span<const double> mean, std::span<const double> norm, int quarters) {
    std::vector<double> weights(mean.size());
    for (std::size_t e = 0; e < mean.size(); ++e) {
        if (mean[e] > 0) weights[e] = mean[e] * quarter_power(norm[e] / mean[e], quarters);
    }
    return weights;
}

int choose_replica_quarters(std::span<const LayerCounts> layers, int ranks, int slots_per_rank) {
    std::vector<const LayerCounts*> sample;
    const std::size_t count = std::min<std::size_t>(layers.size(), most_costed);
    for (std::size_t i = 0; i < count; ++i) sample.push_back(&layers[i * layers.size() / count]);
    std::vector<int> slots;
    for (int slot = 0; slot < (layers.empty() ? 0 : layers.front().slots); ++slot) slots.push_back(slot);
    if (slots.size() < 3) return default_replica_quarters;

    std::vector<Costs> costs(std::min<std::size_t>(slots.size(), most_folds), Costs{});
    for (const LayerCounts* counts : sample) charge_layer(*counts, slots, ranks, slots_per_rank, costs);

    const auto folds = static_cast<double>(costs.size());
    int best = default_replica_quarters;
    double most = 0;
    for (int quarters = 0; quarters < choices; ++quarters) {
        double sum = 0, squares = 0;
        for (const Costs& fold : costs) {
            const double gain = fold[default_replica_quarters] - fold[static_cast<std::size_t>(quarters)];
            sum += gain;
            squares += gain * gain;
        }
        const double mean = sum / folds, variance = std::max(0.0, squares / folds - mean * mean);
        const double error = std::sqrt(variance / (folds - 1));
        if (mean > most && mean > error) {
            most = mean;
            best = quarters;
        }
    }
    return best;
}

}  // namespace eplb
