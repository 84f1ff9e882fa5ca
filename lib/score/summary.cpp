#include "score/summary.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace eplb {

Percentiles percentiles(std::vector<double> values, BadTail bad_tail) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    if (values.empty()) return {none, none, none, none};
    double sum = 0;
    for (const double value : values) sum += value;  // before sorting: in layer order
    if (bad_tail == BadTail::high) {
        std::sort(values.begin(), values.end());
    } else {
        std::sort(values.begin(), values.end(), std::greater<>());
    }
    const auto nearest_rank = [&](std::size_t percent) { return values[(percent * values.size() + 99) / 100 - 1]; };
    return {sum / static_cast<double>(values.size()), nearest_rank(50), nearest_rank(95), values.back()};
}

ScoreSummary summarize(const LayoutScore& score) {
    std::vector<double> step, step_inverse, window, window_inverse;
    for (const auto& layer : score.layers) {
        if (!layer) continue;
        step.push_back(layer->step);
        step_inverse.push_back(1 / layer->step);
        window.push_back(layer->window);
        window_inverse.push_back(1 / layer->window);
    }
    return {percentiles(std::move(step), BadTail::high), percentiles(std::move(step_inverse), BadTail::low),
            percentiles(std::move(window), BadTail::high), percentiles(std::move(window_inverse), BadTail::low)};
}

}  // namespace eplb
