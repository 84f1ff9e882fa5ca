#include "check/variation.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/counts.hpp"

namespace eplb {
namespace {

using Row = std::span<const std::int64_t>;

double median(std::vector<double> values) {
    if (values.empty()) return 0.0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double total_variation(Row a, std::int64_t total_a, Row b, std::int64_t total_b) {
    double sum = 0;
    for (std::size_t expert = 0; expert < a.size(); ++expert) {
        const double difference = static_cast<double>(a[expert]) / static_cast<double>(total_a) -
                                  static_cast<double>(b[expert]) / static_cast<double>(total_b);
        sum += difference < 0 ? -difference : difference;
    }
    return sum / 2;
}

// The mean absolute deviation of a normal variable is sqrt(2 / pi) of its standard deviation.
double sampling_noise(Row a, std::int64_t total_a, Row b, std::int64_t total_b) {
    constexpr double mean_deviation = 0.7978845608028654;
    const double drawn_a = static_cast<double>(total_a), drawn_b = static_cast<double>(total_b);
    double sum = 0;
    for (std::size_t expert = 0; expert < a.size(); ++expert) {
        const double share = (static_cast<double>(a[expert]) + static_cast<double>(b[expert])) / (drawn_a + drawn_b);
        sum += std::sqrt(share * (1 - share) * (1 / drawn_a + 1 / drawn_b));
    }
    return mean_deviation * sum / 2;
}

template <typename Measure>
double median_over_layers(const CountStatistics& a, const CountStatistics& b, const Measure& measure) {
    std::vector<double> values;
    const auto experts = static_cast<std::size_t>(a.experts);
    for (int layer = 0; layer < a.layers; ++layer) {
        const auto index = static_cast<std::size_t>(layer);
        if (a.layer_totals[index] == 0 || b.layer_totals[index] == 0) continue;
        const std::size_t first = a.cell(layer, 0);
        values.push_back(measure(Row(a.expert_totals).subspan(first, experts), a.layer_totals[index],
                                 Row(b.expert_totals).subspan(first, experts), b.layer_totals[index]));
    }
    return median(std::move(values));
}

}  // namespace

double median_variation(const Tensor& tensor, const CountStatistics& statistics, const RecordSplit& split) {
    const Counts counts({tensor});
    const auto experts = static_cast<std::size_t>(statistics.experts);
    std::vector<std::int64_t> row(experts), fitted(experts), held_out(experts);
    std::vector<double> values;
    for (const int layer : statistics.counted_layers()) {
        std::fill(held_out.begin(), held_out.end(), 0);
        std::int64_t held_out_total = 0;
        for (const int slot : split.holdout) {
            counts.read_row(slot, layer, row);
            for (std::size_t expert = 0; expert < experts; ++expert) held_out[expert] += row[expert];
            held_out_total += statistics.row_totals[statistics.row(slot, layer)];
        }
        const std::int64_t fit_total = statistics.layer_totals[static_cast<std::size_t>(layer)] - held_out_total;
        if (fit_total == 0 || held_out_total == 0) continue;
        const std::size_t first = statistics.cell(layer, 0);
        for (std::size_t expert = 0; expert < experts; ++expert) {
            fitted[expert] = statistics.expert_totals[first + expert] - held_out[expert];
        }
        values.push_back(total_variation(fitted, fit_total, held_out, held_out_total));
    }
    return median(std::move(values));
}

double median_variation(const CountStatistics& a, const CountStatistics& b) {
    return median_over_layers(a, b, total_variation);
}

double median_sampling_noise(const CountStatistics& a, const CountStatistics& b) {
    return median_over_layers(a, b, sampling_noise);
}

}  // namespace eplb
