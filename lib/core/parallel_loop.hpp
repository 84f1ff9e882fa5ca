// Independent pieces of work, layers or files, on several threads.
#pragma once

#include <functional>

namespace eplb {

// Calls body(index) for every index in [0, count), each exactly once, on up to `threads` >= 1 threads. When bodies
// throw, the exception of the lowest index is thrown again after the loop, so that the error does not depend on the
// threads.
void for_each_index(int count, int threads, const std::function<void(int index)>& body);

}  // namespace eplb
