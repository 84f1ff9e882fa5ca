#include "score/layer_loop.hpp"

#include <exception>

namespace eplb {

void for_each_layer(int layers, [[maybe_unused]] int threads, const std::function<void(int layer)>& body) {
    std::exception_ptr failure;
    int failed_layer = layers;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int layer = 0; layer < layers; ++layer) {
        try {
            body(layer);
        } catch (...) {
#pragma omp critical(eplb_for_each_layer)
            if (layer < failed_layer) {
                failed_layer = layer;
                failure = std::current_exception();
            }
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace eplb
