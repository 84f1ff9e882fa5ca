// Small linear algebra in one fixed order of operations: the same bits from every compiler and machine.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace eplb {

// sum_i a_i b_i in eight interleaved partial sums, added in one order.
double dot(const double* a, const double* b, std::size_t count);

// x with A x = b for a symmetric positive definite A [n, n], row-major, by Cholesky's decomposition; empty when A is
// not positive definite in double precision.
std::vector<double> solve_positive_definite(std::span<const double> a, std::span<const double> b);

}  // namespace eplb
