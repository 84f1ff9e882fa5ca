// Work over layers on several threads.
#pragma once

#include <functional>

namespace eplb {

// Calls body(layer) for every layer in [0, layers), each exactly once, on up to `threads` >= 1 threads. When bodies
// throw, the exception of the lowest layer is thrown again after the loop, so that the error does not depend on the
// threads.
void for_each_layer(int layers, int threads, const std::function<void(int layer)>& body);

}  // namespace eplb
