#include "fit/solve.hpp"

#include <cmath>

#include "fit/lanes.hpp"

namespace eplb {

double dot(const double* a, const double* b, std::size_t count) {
    double sums[lane_count] = {};
    std::size_t i = 0;
    for (; i + lane_count <= count; i += lane_count) {
        for (std::size_t lane = 0; lane < lane_count; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    }
    for (std::size_t lane = 0; i < count; ++i, ++lane) sums[lane] += a[i] * b[i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

std::vector<double> solve_positive_definite(std::span<const double> a, std::span<const double> b) {
    const std::size_t n = b.size();
    std::vector<double> lower(n * n), x(n);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            lower[i * n + j] = (a[i * n + j] - dot(&lower[i * n], &lower[j * n], j)) / lower[j * n + j];
        }
        const double pivot = a[i * n + i] - dot(&lower[i * n], &lower[i * n], i);
        if (!(pivot > 0)) return {};
        lower[i * n + i] = std::sqrt(pivot);
    }
    for (std::size_t i = 0; i < n; ++i) x[i] = (b[i] - dot(&lower[i * n], x.data(), i)) / lower[i * n + i];
    for (std::size_t i = n; i-- > 0;) {
        double sum = x[i];
        for (std::size_t k = i + 1; k < n; ++k) sum -= lower[k * n + i] * x[k];
        x[i] = sum / lower[i * n + i];
    }
    return x;
}

}  // namespace eplb
