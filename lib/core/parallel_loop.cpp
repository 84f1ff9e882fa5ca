#include "core/parallel_loop.hpp"

#include <exception>

namespace eplb {

void for_each_index(int count, [[maybe_unused]] int threads, const std::function<void(int index)>& body) {
    std::exception_ptr failure;
    int failed = count;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int index = 0; index < count; ++index) {
        try {
            body(index);
        } catch (...) {
#pragma omp critical(eplb_for_each_index)
            if (index < failed) {
                failed = index;
                failure = std::current_exception();
            }
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace eplb
