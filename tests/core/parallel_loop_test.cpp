#include "core/parallel_loop.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

using namespace eplb;

TEST_CASE("a parallel loop runs every index once and throws what the lowest failing index threw") {
    std::vector<std::atomic<int>> visits(100);
    for_each_index(100, 3, [&](int index) { ++visits[static_cast<std::size_t>(index)]; });
    for (const auto& count : visits) CHECK(count == 1);
    for (const int threads : {1, 2, 7}) {
        try {
            for_each_index(100, threads, [](int index) {
                if (index % 10 == 7) throw index;
            });
            FAIL("nothing was thrown");
        } catch (const int index) {
            CHECK(index == 7);
        }
    }
}
