#include "sample/popularity.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "core/random.hpp"
#include "sample/plain_math.hpp"

namespace eplb {
namespace {

// Shape of the model, in units of log popularity at contrast 1; contrast then scales them all to the wanted imbalance.
// Set by hand: a broad base, a little noise in each topic, and specialists whose boost is an order of magnitude.
constexpr double base_spread = 0.55, topic_spread = 0.35, specialist_boost = 1.2, specialist_share = 0.06;
// The mix of a record slot: log shares of the topics have this spread, around means that walk slowly.
constexpr double mix_spread = 1.5, drift_step = 0.15, drift_memory = 0.98;
// Token numbers of record slots vary by 15 %, and never by more than 60 % before their mean is set to spec.tokens.
constexpr double token_spread = 0.15, token_reach = 0.6;
constexpr double largest_exponent = 600;  // plain_exp is good to 700

enum Stream : std::uint64_t { mix_stream, first_layer_stream };  // streams of counts start above these (generator.cpp)

void normalise(std::span<double> values) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    for (double& value : values) value /= sum;
}

// Turns log weights into weights, the largest being 1.
void exponentiate(std::span<double> logs) {
    const double largest = *std::max_element(logs.begin(), logs.end());
    for (double& value : logs) value = plain_exp(std::max(value - largest, -largest_exponent));
}

// Cuts what is above `cap` and hands it to the others in proportion, until nothing is above it (to 1e-6).
void cap_probabilities(std::span<double> row, double cap) {
    for (int round = 0; round < 50; ++round) {
        double capped = 0, rest = 0;
        bool above = false;
        for (const double value : row) {
            above = above || value > cap * (1 + 1e-6);
            (value >= cap ? capped : rest) += value >= cap ? cap : value;
        }
        if (!above || rest == 0) break;
        const double factor = (1 - capped) / rest;
        for (double& value : row) value = value >= cap ? cap : value * factor;
    }
}

}  // namespace

PopularityModel::PopularityModel(const SampleSpec& spec) : spec_(spec) {
    const auto layers = static_cast<std::size_t>(spec.layers), topics = static_cast<std::size_t>(spec.topics),
               experts = static_cast<std::size_t>(spec.experts), slots = static_cast<std::size_t>(spec.filled_slots);
    log_popularity_.resize(layers * topics * experts);
    std::vector<double> base(experts);
    for (std::size_t layer = 0; layer < layers; ++layer) {
        Random random(stream_seed(spec.seed, first_layer_stream + layer));
        for (double& value : base) value = base_spread * plain_normal(random);
        for (std::size_t topic = 0; topic < topics; ++topic) {
            double* row = log_popularity_.data() + (layer * topics + topic) * experts;
            for (std::size_t expert = 0; expert < experts; ++expert) {
                row[expert] = base[expert] + topic_spread * plain_normal(random);
                if (random.unit() < specialist_share) row[expert] += specialist_boost * plain_heavy_tail(random);
            }
        }
    }

    Random random(stream_seed(spec.seed, mix_stream));
    std::vector<double> drift(topics), factors;
    mixes_.resize(slots * topics);
    for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::span<double> mix(mixes_.data() + slot * topics, topics);
        for (std::size_t topic = 0; topic < topics; ++topic) {
            drift[topic] = drift_memory * drift[topic] + drift_step * plain_normal(random);
            mix[topic] = drift[topic] + mix_spread * plain_normal(random);
        }
        exponentiate(mix);
        normalise(mix);
        factors.push_back(1 + std::clamp(token_spread * plain_normal(random), -token_reach, token_reach));
    }
    const double mean = std::accumulate(factors.begin(), factors.end(), 0.0) / static_cast<double>(slots);
    for (const double factor : factors) {
        tokens_.push_back(std::max(1, static_cast<int>(spec.tokens * (factor / mean) + 0.5)));
    }
}

std::vector<double> PopularityModel::topic_rows(int layer, double contrast) const {
    const auto topics = static_cast<std::size_t>(spec_.topics), experts = static_cast<std::size_t>(spec_.experts);
    const auto first =
        log_popularity_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(layer) * topics * experts);
    std::vector<double> rows(first, first + static_cast<std::ptrdiff_t>(topics * experts));
    const double cap = std::max(0.9 / spec_.top_k, 1.0 / spec_.experts);
    for (std::size_t topic = 0; topic < topics; ++topic) {
        const std::span<double> row(rows.data() + topic * experts, experts);
        for (double& value : row) value *= contrast;
        exponentiate(row);
        normalise(row);
        cap_probabilities(row, cap);
    }
    return rows;
}

}  // namespace eplb
