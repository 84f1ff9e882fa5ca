#include "fit/predictability.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/equal_slots.hpp"
#include "core/parallel_loop.hpp"
#include "fit/solve.hpp"

namespace eplb {
namespace {

constexpr std::size_t most_slots = 32;  // the regressions cost T^4
constexpr double ridge = 0.05;          // of the mean diagonal; docs/theory.md, "The guard"
constexpr double floor = 0.02;          // of the fair share of an expert, added to the variance scale

using Matrix = std::vector<double>;  // [n][n], row-major

// What the regressions need of one layer.
struct SlotProducts {
    std::vector<double>
        totals;          // [n] W[t]: the precision of a slot's shares is in proportion to it; 0: no counts there
    Matrix gram;         // [n, n] of the standardised shares, 0 in slots without counts
    double energy = 0;   // sum_t W[t] |z_t|^2; 0 where nothing varies
    double noise = 0;    // W[t] |z_t|^2 on average where nothing but counting noise differs
    double numbers = 0;  // how many numbers of equal variance the noise of one slot is worth, <= E
};

// Standardised shares: z_te = (y_te - m_e) / sqrt(m_e + floor R/E).
SlotProducts slot_products(const LayerCounts& counts, std::span<const int> slots, int ranks) {
    const std::size_t n = slots.size(), experts = static_cast<std::size_t>(counts.experts);
    std::vector<double> mean(experts), z(n * experts);
    SlotProducts result{std::vector<double>(n), Matrix(n * n)};
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = counts.row(slots[i]);
        const auto slot_total = static_cast<double>(counts.slot_total(slots[i]));
        result.totals[i] = slot_total;
        total += slot_total;
        for (std::size_t e = 0; e < experts; ++e) {
            const auto count = static_cast<double>(row[e]);
            mean[e] += count;
            z[i * experts + e] = slot_total > 0 ? count * ranks / slot_total : 0;
        }
    }
    if (total == 0) return result;
    std::vector<double> scale(experts);
    double variances = 0, squares = 0;
    for (std::size_t e = 0; e < experts; ++e) {
        mean[e] *= ranks / total;
        const double variance = mean[e] + floor * ranks / counts.experts, noise = mean[e] / variance;
        scale[e] = 1 / std::sqrt(variance);
        variances += noise;
        squares += noise * noise;
    }
    result.noise = variances * ranks;
    result.numbers = variances * variances / squares;
    for (std::size_t i = 0; i < n; ++i) {
        if (result.totals[i] == 0) continue;  // z is 0 there
        for (std::size_t e = 0; e < experts; ++e) {
            double& value = z[i * experts + e];
            value = (value - mean[e]) * scale[e];
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
            result.gram[i * n + j] = result.gram[j * n + i] = dot(&z[i * experts], &z[j * experts], experts);
        }
        result.energy += result.totals[i] * result.gram[i * n + i];
    }
    return result;
}

// The normal equations of one slot t on the others, added over the layers in which t has counts.
struct Regression {
    Matrix a;               // [m, m] products of the others
    std::vector<double> b;  // [m] products of the others with t
    double length = 0;      // of t
    double numbers = 0;     // that the noise of t is worth, all layers together
};

// With u_s = z_s - mean of the others and v = z_t - the same mean, every product follows from the Gram matrix. The mean
// weighs each slot by its precision, and so does the layer: a row of few counts is mostly noise. A row without counts
// says nothing: it is the mean.
Regression regression_of(std::span<const SlotProducts> layers, std::size_t n, std::size_t t) {
    std::vector<std::size_t> others;
    for (std::size_t s = 0; s < n; ++s) {
        if (s != t) others.push_back(s);
    }
    const std::size_t m = others.size();
    Regression sum{Matrix(m * m), std::vector<double>(m)};
    std::vector<double> row_mean(m);
    double present = 0, inverse_numbers = 0;
    for (const SlotProducts& layer : layers) {
        if (layer.energy == 0 || layer.totals[t] == 0) continue;
        double total = 0, grand_mean = 0, mean_with_t = 0;
        for (const std::size_t s : others) total += layer.totals[s];
        if (total == 0) continue;
        for (std::size_t i = 0; i < m; ++i) {
            row_mean[i] = 0;
            for (const std::size_t s : others) row_mean[i] += layer.totals[s] * layer.gram[others[i] * n + s];
            row_mean[i] /= total;
            grand_mean += row_mean[i] * layer.totals[others[i]] / total;
            mean_with_t += layer.gram[others[i] * n + t] * layer.totals[others[i]] / total;
        }
        const double weight = layer.totals[t] / layer.energy;
        for (std::size_t i = 0; i < m; ++i) {
            if (layer.totals[others[i]] == 0) continue;
            for (std::size_t j = 0; j < m; ++j) {
                if (layer.totals[others[j]] == 0) continue;
                const double product = layer.gram[others[i] * n + others[j]];
                sum.a[i * m + j] += weight * (product - row_mean[i] - row_mean[j] + grand_mean);
            }
            sum.b[i] += weight * (layer.gram[others[i] * n + t] - row_mean[i] - mean_with_t + grand_mean);
        }
        sum.length += weight * (layer.gram[t * n + t] - 2 * mean_with_t + grand_mean);
        ++present;
        inverse_numbers += 1 / layer.numbers;
    }
    if (present > 0) sum.numbers = present * present / inverse_numbers;
    return sum;
}

// Squared deviation of slot t that is left after the regression. precision: [n]; a priori a slot's coefficient is in
// proportion to it.
double unexplained(const Regression& regression, std::span<const double> precision, std::size_t t) {
    const std::size_t m = regression.b.size();
    double diagonal = 0;
    const auto precision_of = [&](std::size_t i) { return precision[i < t ? i : i + 1]; };
    for (std::size_t i = 0; i < m; ++i) {
        diagonal += regression.a[i * m + i] * precision_of(i) / static_cast<double>(m);
    }
    Matrix ridged = regression.a;
    for (std::size_t i = 0; i < m; ++i) ridged[i * m + i] += ridge * diagonal / precision_of(i);
    const auto x = solve_positive_definite(ridged, regression.b);
    if (x.empty()) return regression.length;  // the others are all the same
    double linear = 0, quadratic = 0;
    for (std::size_t i = 0; i < m; ++i) {
        linear += x[i] * regression.b[i];
        quadratic += x[i] * dot(&regression.a[i * m], x.data(), m);
    }
    return regression.length - 2 * linear + quadratic;
}

// Record slots with counts in any layer, copies once.
std::vector<int> different_slots(std::span<const LayerCounts> layers) {
    std::vector<int> slots;
    const std::vector<int> first = first_equal(layers);
    for (int slot = 0; slot < static_cast<int>(first.size()); ++slot) {
        const bool any = std::any_of(layers.begin(), layers.end(),
                                     [&](const LayerCounts& counts) { return counts.slot_total(slot) > 0; });
        if (any && first[static_cast<std::size_t>(slot)] == slot) slots.push_back(slot);
    }
    return slots;
}

std::vector<SlotProducts> all_products(std::span<const LayerCounts> layers, std::span<const int> slots, int ranks,
                                       int threads) {
    std::vector<SlotProducts> products(layers.size());
    for_each_index(static_cast<int>(layers.size()), threads, [&](int layer) {
        const auto l = static_cast<std::size_t>(layer);
        products[l] = slot_products(layers[l], slots, ranks);
    });
    return products;
}

}  // namespace

std::optional<Predictability> predictability(std::span<const LayerCounts> layers, int ranks, int threads) {
    std::vector<int> chosen = different_slots(layers);
    if (chosen.size() < 3) return std::nullopt;
    if (chosen.size() > most_slots) {
        const std::vector<int> all = std::exchange(chosen, {});
        for (std::size_t i = 0; i < most_slots; ++i) chosen.push_back(all[i * all.size() / most_slots]);
    }
    const std::size_t n = chosen.size();
    const auto products = all_products(layers, chosen, ranks, threads);
    std::vector<double> precision(n);
    for (const SlotProducts& layer : products) {
        for (std::size_t t = 0; t < n; ++t) precision[t] += layer.totals[t];
    }
    double before = 0, after = 0, chance = 0;
    for (std::size_t t = 0; t < n; ++t) {
        const Regression regression = regression_of(products, n, t);
        if (regression.numbers == 0) continue;
        before += regression.length;
        after += unexplained(regression, precision, t);
        chance += static_cast<double>(n - 2) / regression.numbers / static_cast<double>(n);
    }
    return Predictability{before > 0 ? 1 - after / before : 0, chance};
}

std::optional<double> difference_of_two(std::span<const LayerCounts> layers, int ranks, int threads) {
    const std::vector<int> both = different_slots(layers);
    if (both.size() != 2) return std::nullopt;
    double difference = 0, noise = 0;
    for (const SlotProducts& layer : all_products(layers, both, ranks, threads)) {
        const double first = layer.totals[0], second = layer.totals[1];
        if (first == 0 || second == 0) continue;
        const double square = layer.gram[0] - 2 * layer.gram[1] + layer.gram[3];
        difference += square * first * second / (first + second);
        noise += layer.noise;
    }
    return noise > 0 ? difference / noise : 0;
}

}  // namespace eplb
