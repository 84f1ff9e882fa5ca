#include "fit/predictability.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/parallel_loop.hpp"
#include "fit/solve.hpp"

namespace eplb {
namespace {

constexpr int most_slots = 32;  // the regressions cost T^4
constexpr double ridge = 0.05;  // of the mean diagonal; docs/theory.md, "The guard"
constexpr double floor = 0.02;  // of the fair share of an expert, added to the variance scale

using Matrix = std::vector<double>;  // [n][n], row-major

// Gram matrix [n][n] of the standardised shares z_te = (y_te - m_e) / sqrt(m_e + floor R/E), divided by its trace. All
// zero where nothing varies.
Matrix standardised_gram(const LayerCounts& counts, std::span<const int> slots, int ranks) {
    const std::size_t n = slots.size(), experts = static_cast<std::size_t>(counts.experts);
    std::vector<double> mean(experts), z(n * experts), slot_totals(n);
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = counts.row(slots[i]);
        const auto slot_total = static_cast<double>(counts.slot_total(slots[i]));
        slot_totals[i] = slot_total;
        total += slot_total;
        for (std::size_t e = 0; e < experts; ++e) {
            const auto count = static_cast<double>(row[e]);
            mean[e] += count;
            z[i * experts + e] = slot_total > 0 ? count * ranks / slot_total : 0;
        }
    }
    Matrix gram(n * n);
    if (total == 0) return gram;
    std::vector<double> scale(experts);
    for (std::size_t e = 0; e < experts; ++e) {
        mean[e] *= ranks / total;
        scale[e] = 1 / std::sqrt(mean[e] + floor * ranks / counts.experts);
    }
    for (std::size_t i = 0; i < n; ++i) {
        if (slot_totals[i] == 0) continue;  // z is 0 there
        for (std::size_t e = 0; e < experts; ++e) {
            double& value = z[i * experts + e];
            value = (value - mean[e]) * scale[e];
        }
    }
    double trace = 0;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
            gram[i * n + j] = gram[j * n + i] = dot(&z[i * experts], &z[j * experts], experts);
        }
        trace += gram[i * n + i];
    }
    for (double& value : gram) value = trace > 0 ? value / trace : 0;
    return gram;
}

// Squared deviation of slot t from the mean of the others, before and after the regression on the others.
void regress(const Matrix& gram, std::size_t n, std::size_t t, double& before, double& after) {
    std::vector<std::size_t> others;
    for (std::size_t s = 0; s < n; ++s) {
        if (s != t) others.push_back(s);
    }
    // With u_s = z_s - mean of the others and v = z_t - the same mean, every product follows from the Gram matrix.
    const std::size_t m = others.size();
    const double share = 1.0 / static_cast<double>(m);
    std::vector<double> row_mean(m);
    double grand_mean = 0, mean_with_t = 0;
    for (std::size_t i = 0; i < m; ++i) {
        for (const std::size_t s : others) row_mean[i] += gram[others[i] * n + s];
        row_mean[i] *= share;
        grand_mean += row_mean[i] * share;
        mean_with_t += gram[others[i] * n + t] * share;
    }
    Matrix a(m * m);
    std::vector<double> b(m);
    double diagonal = 0;
    for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < m; ++j) {
            a[i * m + j] = gram[others[i] * n + others[j]] - row_mean[i] - row_mean[j] + grand_mean;
        }
        b[i] = gram[others[i] * n + t] - row_mean[i] - mean_with_t + grand_mean;
        diagonal += a[i * m + i] * share;
    }
    const double length = gram[t * n + t] - 2 * mean_with_t + grand_mean;
    before += length;
    Matrix ridged = a;
    for (std::size_t i = 0; i < m; ++i) ridged[i * m + i] += ridge * diagonal;
    const auto x = solve_positive_definite(ridged, b);
    if (x.empty()) {  // the others are all the same
        after += length;
        return;
    }
    double linear = 0, quadratic = 0;
    for (std::size_t i = 0; i < m; ++i) {
        linear += x[i] * b[i];
        quadratic += x[i] * dot(&a[i * m], x.data(), m);
    }
    after += length - 2 * linear + quadratic;
}

}  // namespace

std::optional<double> predictability(std::span<const LayerCounts> layers, int ranks, int threads) {
    std::vector<int> filled;  // record slots with counts in any layer
    const int slots = layers.empty() ? 0 : layers.front().slots;
    for (int slot = 0; slot < slots; ++slot) {
        const bool any = std::any_of(layers.begin(), layers.end(),
                                     [&](const LayerCounts& counts) { return counts.slot_total(slot) > 0; });
        if (any) filled.push_back(slot);
    }
    if (filled.size() < 3) return std::nullopt;
    std::vector<int> chosen = filled;
    if (filled.size() > most_slots) {
        chosen.clear();
        for (std::size_t i = 0; i < most_slots; ++i) chosen.push_back(filled[i * filled.size() / most_slots]);
    }
    std::vector<Matrix> grams(layers.size());
    for_each_index(static_cast<int>(layers.size()), threads, [&](int layer) {
        const auto l = static_cast<std::size_t>(layer);
        grams[l] = standardised_gram(layers[l], chosen, ranks);
    });
    Matrix pooled(chosen.size() * chosen.size());
    for (const Matrix& gram : grams) {
        for (std::size_t i = 0; i < pooled.size(); ++i) pooled[i] += gram[i];
    }
    double before = 0, after = 0;
    for (std::size_t t = 0; t < chosen.size(); ++t) regress(pooled, chosen.size(), t, before, after);
    return before > 0 ? 1 - after / before : 0;
}

}  // namespace eplb
