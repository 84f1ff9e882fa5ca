// SGLang's seeded tables against CPython's own random module on random layouts.
#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <test_paths.hpp>
#include <vector>

#include "dispatch/model.hpp"
#include "random_layout.hpp"

#ifdef EPLB_PYTHON
using namespace eplb;

TEST_CASE("tables of random layouts equal those of CPython's random") {
    struct Case {
        std::string_view model;
        int nodes, moe_tp;
        Layout layout;
    };
    // Up to 24 replicas of one expert: both ways of random.sample, and remainders above 5.
    const std::array geometries{Geometry{3, 8, 8, 3}, Geometry{2, 20, 16, 4}, Geometry{2, 40, 12, 5},
                                Geometry{2, 34, 36, 2}, Geometry{1, 9, 48, 2}};
    std::vector<Case> cases;
    std::uint64_t seed = 0;
    for (const Geometry& geometry : geometries) {
        for (const int nodes : {1, 2, 4}) {
            for (const DispatchModel& model : dispatch_models()) {
                if (model.seeded == nullptr) continue;
                for (const int moe_tp : {1, 2}) {
                    cases.push_back({model.name, nodes, moe_tp, test::random_layout(geometry, ++seed)});
                }
            }
        }
    }
    const std::filesystem::path questions =
        std::filesystem::temp_directory_path() / fmt::format("eplb_cpython_{}", static_cast<const void*>(&cases));
    {
        std::ofstream file(questions);
        for (const Case& one : cases) {
            const Geometry& geometry = one.layout.geometry();
            file << one.model << ' ' << one.nodes << ' ' << one.moe_tp << ' ' << geometry.ranks << ' '
                 << geometry.slots_per_rank << ' ' << geometry.experts << ' ' << geometry.layers;
            for (int layer = 0; layer < geometry.layers; ++layer) {
                for (const ExpertId expert : one.layout.row(layer)) file << ' ' << expert.value;
            }
            file << '\n';
        }
    }
    const std::string command = fmt::format("'{}' '{}/tests/dispatch/cpython_tables.py' < '{}'", EPLB_PYTHON,
                                            EPLB_SOURCE_DIR, questions.string());
    std::string answers;
    {
        const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
        REQUIRE(pipe);
        std::array<char, 4096> buffer;
        while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
            answers.append(buffer.data(), got);
        }
    }
    std::filesystem::remove(questions);

    std::istringstream lines(answers);
    int different = 0;
    for (const Case& one : cases) {
        DispatchContext context;
        context.nodes = one.nodes;
        context.moe_tensor_parallel = one.moe_tp;
        const DispatchTable table = dispatch_table(find_dispatch_model(one.model), one.layout, context);
        for (const SlotId slot : table.slots) {
            int expected = -1;
            REQUIRE(lines >> expected);
            different += slot.value != expected;
        }
    }
    CHECK(different == 0);
}
#endif
