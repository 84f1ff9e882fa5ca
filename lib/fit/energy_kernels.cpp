#include "fit/energy_kernels.hpp"

#include <cstddef>

// The kernels are written once, in energy_kernels.inc, and compiled for the plain machine and, on x86-64, for AVX2:
// half the instructions and, without contraction, the same bits. target_clones does not do here: g++ splits the vectors
// before it makes the clones.

namespace eplb::energy {

namespace plain {
#include "fit/energy_kernels.inc"
}  // namespace plain

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace avx2 {
#include "fit/energy_kernels.inc"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

int kernel_set_count() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? 2 : 1;
#else
    return 1;
#endif
}

const Kernels& kernel_set([[maybe_unused]] int index) {
#if defined(__x86_64__)
    if (index == 1) return avx2::set;
#endif
    return plain::set;
}

const Kernels& kernels() {
    return kernel_set(kernel_set_count() - 1);
}

}  // namespace eplb::energy
