// Counts that no router made: a server under test spreads tokens evenly, sends them all to the same experts, or draws
// experts at random (vllm's routing simulation, vllm-ascend's forced balance, dummy runs). Such counts show no skew
// that a layout could serve, however large the difference between the ranks is.
//
// Routers differ from layer to layer and their tokens from pass to pass: a row scatters about its expectation at least
// as drawing scatters, and the layers do not share one distribution. For rows i with n_i counts, c_ie of them on expert
// e, over which the pooled shares are p_e, X2 = sum (c_ie - n_i p_e)^2 / (n_i p_e) is about its degrees of freedom when
// all rows are drawn from p.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "core/counts.hpp"

namespace eplb::check {
namespace {

constexpr int least_degrees = 64;

// X2 of rows against their sum, from sum_e c^2 / C_e: X2 = N (sum_i 1/n_i sum_e c_ie^2 / C_e - 1).
struct Homogeneity {
    double chi_square = 0, degrees = 0;

    void add(double total, double weighted_squares, std::int64_t rows, std::int64_t experts) {
        chi_square += total * (weighted_squares - 1);
        degrees += static_cast<double>((rows - 1) * (experts - 1));
    }
    double ratio() const { return chi_square / degrees; }
};

double squares(std::span<const std::int64_t> row, std::span<const double> totals) {
    double sum = 0;
    for (std::size_t expert = 0; expert < row.size(); ++expert) {
        if (row[expert] == 0) continue;
        const auto count = static_cast<double>(row[expert]);
        sum += count * count / totals[expert];
    }
    return sum;
}

// At least 4 experts with at least 4 counts each, and none has two more than another: chance gives such a row once in
// thousands, and half of the counts are asked for.
bool flat(std::span<const std::int64_t> row, std::int64_t total) {
    std::int64_t low = total, high = 0, hit = 0;
    for (const std::int64_t count : row) {
        if (count == 0) continue;
        low = std::min(low, count);
        high = std::max(high, count);
        ++hit;
    }
    return hit >= 4 && low >= 4 && high - low <= 1;
}

struct Layer {
    std::int64_t flat_total = 0;
    std::vector<std::int64_t> totals;  // [E], over all record slots
    Homogeneity passes;                // of the distinct record slots
};

Layer look_at(const CountContext& context, const Counts& counts, int layer) {
    const CountStatistics& statistics = context.statistics;
    std::vector<std::int64_t> row(static_cast<std::size_t>(statistics.experts));
    std::vector<double> distinct_totals(row.size());
    Layer result;
    const std::size_t first_cell = statistics.cell(layer, 0);
    result.totals.assign(statistics.expert_totals.begin() + static_cast<std::ptrdiff_t>(first_cell),
                         statistics.expert_totals.begin() + static_cast<std::ptrdiff_t>(first_cell + row.size()));
    // Two rounds over the distinct record slots: their sum, then their distance from it.
    double total = 0, weighted = 0;
    std::int64_t rows = 0;
    for (const bool second : {false, true}) {
        for (std::size_t index = 0; index < statistics.filled.size(); ++index) {
            const int slot = statistics.filled[index];
            const std::int64_t n = statistics.row_totals[statistics.row(slot, layer)];
            const bool distinct = statistics.first_equal[index] == static_cast<int>(index);
            if (n == 0 || (second && !distinct)) continue;
            counts.read_row(slot, layer, row);
            if (second) {
                weighted += squares(row, distinct_totals) / static_cast<double>(n);
                continue;
            }
            if (flat(row, n)) result.flat_total += n;
            if (!distinct) continue;
            ++rows;
            total += static_cast<double>(n);
            for (std::size_t expert = 0; expert < row.size(); ++expert) {
                distinct_totals[expert] += static_cast<double>(row[expert]);
            }
        }
    }
    const auto hit = std::count_if(distinct_totals.begin(), distinct_totals.end(), [](double sum) { return sum > 0; });
    if (rows > 1) result.passes.add(total, weighted, rows, hit);
    return result;
}

// Of the layers' totals. Empty where they are too few or too small to tell layers apart.
std::optional<double> layers_ratio(const std::vector<Layer>& layers, double total) {
    constexpr std::size_t least_layers = 4;
    constexpr double least_mean = 32;  // per layer and expert
    if (layers.size() < least_layers) return std::nullopt;
    std::vector<double> pooled(layers.front().totals.size());
    for (const Layer& layer : layers) {
        for (std::size_t expert = 0; expert < pooled.size(); ++expert) {
            pooled[expert] += static_cast<double>(layer.totals[expert]);
        }
    }
    double weighted = 0;
    for (const Layer& layer : layers) {
        double n = 0;
        for (const std::int64_t count : layer.totals) n += static_cast<double>(count);
        weighted += squares(layer.totals, pooled) / n;
    }
    const auto hit = std::count_if(pooled.begin(), pooled.end(), [](double sum) { return sum > 0; });
    Homogeneity homogeneity;
    homogeneity.add(total, weighted, static_cast<std::int64_t>(layers.size()), hit);
    if (homogeneity.degrees < least_degrees ||
        total < least_mean * static_cast<double>(layers.size()) * static_cast<double>(hit)) {
        return std::nullopt;
    }
    return homogeneity.ratio();
}

}  // namespace

Findings check_forced_routing(const CountContext& context) {
    // Of X2 over its degrees of freedom. Drawing gives 1; routing to k of E experts without repeats (E - k)/(E - 1).
    constexpr double alike_passes = 0.1, alike_layers = 1.5;
    const CountStatistics& statistics = context.statistics;
    const Counts counts({context.tensor});
    std::vector<Layer> layers;
    std::int64_t flat_total = 0;
    Homogeneity passes;
    for (const int layer : statistics.counted_layers()) {
        const Layer& found = layers.emplace_back(look_at(context, counts, layer));
        flat_total += found.flat_total;
        passes.chi_square += found.passes.chi_square;
        passes.degrees += found.passes.degrees;
    }
    const auto total = static_cast<double>(statistics.total);
    std::string what;
    if (const double share = static_cast<double>(flat_total) / total; share > 0.5) {
        what =
            fmt::format("{:.0f} % of the counts are in rows where every expert that is hit at all is hit equally often",
                        100 * share);
    } else if (passes.degrees >= least_degrees && passes.ratio() < alike_passes) {
        what = fmt::format(
            "the record slots differ less than drawing the same tokens again would ({:.2g} of that "
            "variance)",
            passes.ratio());
    } else if (const auto ratio = layers_ratio(layers, total); ratio && *ratio < alike_layers) {
        what = fmt::format("all layers hit the same experts equally often, within chance ({:.2g} times its variance)",
                           *ratio);
    } else {
        return {};
    }
    return {
        {Severity::warning, "FORCED_ROUTING", "", what + ": no router makes such counts",
         "forced or simulated routing, dummy inputs: no evidence of skew. Record real traffic with the real router"}};
}

}  // namespace eplb::check
