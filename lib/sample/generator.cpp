#include "sample/generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "core/error.hpp"
#include "core/layout.hpp"
#include "sample/multinomial.hpp"
#include "sample/popularity.hpp"
#include "score/balance.hpp"

namespace eplb {
namespace {

constexpr double largest_contrast = 4.0;
constexpr int bisections = 24;
constexpr std::int64_t expected_resolution = std::int64_t{1} << 40;  // expected counts as integers for the judge
constexpr double weight_resolution = 0x1.0p31;                       // probabilities as integers for the sampler
constexpr std::uint64_t first_count_stream = 1u << 20;               // above the streams of the popularity model

// Window max/mean of the trivial layout for the summed counts of one layer.
class TrivialJudge {
  public:
    explicit TrivialJudge(const SampleSpec& spec)
        : ranks_(spec.ranks), experts_(spec.experts), layout_({1, spec.experts, spec.ranks, spec.slots_per_rank}) {
        fill_trivial_row(layout_.row(0), spec.experts);
        const std::vector<int> replicas = replica_counts(layout_.row(0), spec.experts);
        for (const ExpertId expert : layout_.row(0)) {
            shares_.push_back(1.0 / replicas[static_cast<std::size_t>(expert.value)]);
        }
    }

    double window(std::vector<std::int64_t> expert_totals) const {
        const auto result = balance({1, experts_, std::move(expert_totals)}, layout_.row(0), shares_, ranks_);
        return result ? result->window : 1.0;
    }

  private:
    int ranks_, experts_;
    Layout layout_;
    std::vector<double> shares_;
};

double lower_median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Shares of the topics in all tokens of the file, [topics].
std::vector<double> pooled_mix(const PopularityModel& model, int topics) {
    std::vector<double> pooled(static_cast<std::size_t>(topics));
    double sum = 0;
    for (std::size_t slot = 0; slot < model.tokens().size(); ++slot) {
        sum += model.tokens()[slot];
        for (std::size_t topic = 0; topic < pooled.size(); ++topic) {
            pooled[topic] += model.mixes()[slot * pooled.size() + topic] * model.tokens()[slot];
        }
    }
    for (double& share : pooled) share /= sum;
    return pooled;
}

// Adds up the rows of a [topics, experts] table, weighted.
void mix_rows(std::span<const double> rows, std::span<const double> mix, std::span<double> mixed) {
    std::fill(mixed.begin(), mixed.end(), 0.0);
    for (std::size_t topic = 0; topic < mix.size(); ++topic) {
        const double* row = rows.data() + topic * mixed.size();
        for (std::size_t expert = 0; expert < mixed.size(); ++expert) mixed[expert] += mix[topic] * row[expert];
    }
}

// The contrast at which the expected counts have the wanted trivial balance, by bisection.
double find_contrast(const PopularityModel& model, const SampleSpec& spec, const TrivialJudge& judge, int threads) {
    const std::vector<double> pooled = pooled_mix(model, spec.topics);
    const auto trivial_balance = [&](double contrast) {
        std::vector<double> balances(static_cast<std::size_t>(spec.layers - spec.dense_layers));
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int layer = spec.dense_layers; layer < spec.layers; ++layer) {
            std::vector<double> expected(static_cast<std::size_t>(spec.experts));
            mix_rows(model.topic_rows(layer, contrast), pooled, expected);
            std::vector<std::int64_t> totals;
            for (const double share : expected) {
                totals.push_back(static_cast<std::int64_t>(share * static_cast<double>(expected_resolution)));
            }
            balances[static_cast<std::size_t>(layer - spec.dense_layers)] = judge.window(std::move(totals));
        }
        return lower_median(std::move(balances));
    };
    double low = 0, high = largest_contrast;
    const double least = trivial_balance(low), most = trivial_balance(high);
    if (spec.trivial_balance < least || spec.trivial_balance > most) {
        throw Error(ErrorCode::usage, "", fmt::format("trivial balance {} is out of reach", spec.trivial_balance),
                    fmt::format("for this geometry and these topics {:.4f} to {:.4f} can be had", least, most));
    }
    for (int i = 0; i < bisections; ++i) {
        const double middle = (low + high) / 2;
        (trivial_balance(middle) < spec.trivial_balance ? low : high) = middle;
    }
    return low;
}

// Fills the counts of one layer in every filled record slot and returns its totals, [experts].
std::vector<std::int64_t> sample_layer(const PopularityModel& model, int layer, double contrast, Sample& sample) {
    const SampleSpec& spec = sample.spec;
    const auto experts = static_cast<std::size_t>(spec.experts), topics = static_cast<std::size_t>(spec.topics);
    const std::vector<double> rows = model.topic_rows(layer, contrast);
    std::vector<double> mixed(experts);
    std::vector<std::uint32_t> weights(experts);
    std::vector<std::int64_t> drawn(experts), totals(experts);
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(spec.filled_slots); ++slot) {
        mix_rows(rows, {model.mixes().data() + slot * topics, topics}, mixed);
        for (std::size_t expert = 0; expert < experts; ++expert) {
            weights[expert] = static_cast<std::uint32_t>(mixed[expert] * weight_resolution) + 1;
        }
        const std::size_t row = slot * static_cast<std::size_t>(spec.layers) + static_cast<std::size_t>(layer);
        Coins coins(stream_seed(spec.seed, first_count_stream + row));
        const std::int64_t tokens = model.tokens()[slot];
        bounded_multinomial(coins, tokens * spec.top_k, tokens, weights, drawn);
        for (std::size_t expert = 0; expert < experts; ++expert) {
            sample.counts[row * experts + expert] = static_cast<std::int32_t>(drawn[expert]);
            totals[expert] += drawn[expert];
        }
    }
    return totals;
}

}  // namespace

Sample generate(const SampleSpec& spec, int threads, const Progress& progress) {
    require_sensible(spec);
    Sample sample;
    sample.spec = spec;
    sample.counts.resize(static_cast<std::size_t>(spec.record_slots) * static_cast<std::size_t>(spec.layers) *
                         static_cast<std::size_t>(spec.experts));
    if (spec.filled_slots == 0) return sample;

    const PopularityModel model(spec);
    const TrivialJudge judge(spec);
    const double contrast = find_contrast(model, spec, judge, threads);

    const int moe_layers = spec.layers - spec.dense_layers;
    std::vector<double> balances(static_cast<std::size_t>(moe_layers));
    std::atomic<bool> stopped = false;
    int done = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int layer = spec.dense_layers; layer < spec.layers; ++layer) {
        if (stopped || progress.stop()) {
            stopped = true;
            continue;
        }
        std::vector<std::int64_t> totals = sample_layer(model, layer, contrast, sample);
        std::int64_t layer_total = 0;
        for (const std::int64_t total : totals) layer_total += total;
        balances[static_cast<std::size_t>(layer - spec.dense_layers)] = judge.window(std::move(totals));
#pragma omp critical(eplb_sample_progress)
        {
            sample.total += layer_total;
            if (progress.report) progress.report(++done, moe_layers, 0);
        }
    }
    if (stopped) throw Interrupted{};
    sample.trivial_balance = lower_median(std::move(balances));
    return sample;
}

}  // namespace eplb
