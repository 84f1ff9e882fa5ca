#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "dispatch/model.hpp"
#include "random_layout.hpp"

using namespace eplb;

namespace {

// E=8, R=8, S=3: layer 0 as published, layer 1 the same row reversed.
Layout published_layout() {
    std::vector<int> row{0, 1, 2, 0, 3, 4, 0, 5, 6, 7, 2, 3, 1, 4, 5, 1, 6, 7, 1, 2, 3, 4, 5, 6};
    std::vector<ExpertId> slots;
    for (const int expert : row) slots.push_back(ExpertId{expert});
    slots.insert(slots.end(), slots.rbegin(), slots.rend());
    return Layout(Geometry{2, 8, 8, 3}, slots);
}

std::vector<int> table_row(const DispatchTable& table, int rank, int layer) {
    std::vector<int> slots;
    for (const SlotId slot : table.row(rank, layer)) slots.push_back(slot.value);
    return slots;
}

using Rows = std::vector<std::vector<int>>;

Rows layer_rows(const char* model, int nodes, int layer = 0) {
    DispatchContext context;
    context.nodes = nodes;
    const DispatchTable table = dispatch_table(find_dispatch_model(model), published_layout(), context);
    Rows rows;
    for (int rank = 0; rank < table.ranks; ++rank) rows.push_back(table_row(table, rank, layer));
    return rows;
}

}  // namespace

TEST_CASE("generation A deals replicas to the ranks without one, on any number of nodes") {
    const Rows published{{0, 1, 2, 20, 5, 22, 23, 17},   {3, 18, 10, 4, 5, 7, 8, 17},   {6, 1, 19, 4, 13, 7, 8, 9},
                         {3, 15, 10, 11, 21, 14, 16, 9}, {6, 12, 2, 20, 13, 14, 16, 9}, {0, 15, 19, 4, 21, 22, 16, 17},
                         {6, 18, 19, 20, 13, 7, 8, 17},  {0, 12, 2, 11, 21, 22, 23, 9}};
    CHECK(layer_rows("sglang-a", 1) == published);
    CHECK(layer_rows("sglang-a", 4) == published);
}

TEST_CASE("generation B on one node sends every rank without a replica to the first") {
    const Rows published{{0, 1, 2, 4, 5, 7, 8, 9},    {3, 1, 2, 4, 5, 7, 8, 9},    {6, 1, 2, 4, 5, 7, 8, 9},
                         {0, 1, 10, 11, 5, 7, 8, 9},  {0, 12, 2, 4, 13, 14, 8, 9}, {0, 15, 2, 4, 5, 7, 16, 17},
                         {0, 18, 19, 20, 5, 7, 8, 9}, {0, 1, 2, 4, 21, 22, 23, 9}};
    CHECK(layer_rows("sglang-b", 1) == published);
    CHECK(layer_rows("sglang-c", 1) == published);
}

TEST_CASE("generation B on four nodes prefers the node and deals to the ranks left over") {
    CHECK(layer_rows("sglang-b", 4) == Rows{{0, 1, 2, 4, 5, 22, 16, 9},
                                            {3, 1, 2, 4, 5, 7, 23, 17},
                                            {6, 1, 10, 11, 21, 7, 8, 9},
                                            {6, 12, 10, 11, 5, 7, 8, 9},
                                            {6, 12, 2, 11, 13, 14, 16, 17},
                                            {3, 15, 19, 20, 13, 14, 16, 17},
                                            {6, 18, 19, 20, 21, 22, 23, 9},
                                            {0, 18, 19, 20, 21, 22, 23, 17}});
}

TEST_CASE("generation C on four nodes draws from a stream of its own for every rank") {
    CHECK(layer_rows("sglang-c", 4) == Rows{{0, 1, 2, 4, 5, 7, 16, 17},
                                            {3, 1, 2, 4, 5, 22, 23, 9},
                                            {6, 1, 10, 11, 21, 7, 8, 9},
                                            {6, 18, 10, 11, 5, 7, 8, 9},
                                            {6, 12, 19, 4, 13, 14, 16, 17},
                                            {3, 15, 2, 20, 13, 14, 16, 17},
                                            {6, 18, 19, 20, 21, 22, 23, 9},
                                            {0, 18, 19, 20, 21, 22, 23, 17}});
    CHECK(layer_rows("sglang-d", 4) == layer_rows("sglang-c", 4));
}

TEST_CASE("the second layer shows that the streams of B and C have gone apart") {
    CHECK(layer_rows("sglang-b", 2, 1)[1] == std::vector<int>{23, 5, 4, 3, 2, 1, 0, 6});
    CHECK(layer_rows("sglang-c", 2, 1)[1] == std::vector<int>{20, 5, 4, 3, 2, 1, 0, 6});
}

TEST_CASE("source ranks per replica of 2, 3 and 4 replicas on 16 ranks are those published") {
    // One expert with its replicas on the first slots of the first ranks, 15 others alone; one rank keeps a spare.
    for (const int replicas : {2, 3, 4}) {
        const int experts = 33 - replicas;
        std::vector<ExpertId> slots;
        int next = 1;
        for (int rank = 0; rank < 16; ++rank) {
            slots.push_back(ExpertId{rank < replicas ? 0 : next++});
            slots.push_back(ExpertId{next++});
        }
        const Layout layout(Geometry{1, experts, 16, 2}, slots);
        DispatchContext context;
        context.nodes = 1;
        const auto sources = [&](const char* model) {
            std::vector<int> counts;
            const ReplicaShares shares = replica_shares(find_dispatch_model(model), layout, context);
            for (int rank = 0; rank < replicas; ++rank) {
                counts.push_back(static_cast<int>(shares.row(0)[static_cast<std::size_t>(2 * rank)] * 16));
            }
            return counts;
        };
        std::vector<int> first_takes_all(static_cast<std::size_t>(replicas), 1);
        first_takes_all[0] = 17 - replicas;
        CHECK(sources("sglang-b") == first_takes_all);
        CHECK(sources("sglang-c") == first_takes_all);
        std::vector<int> fair = sources("sglang-a");
        std::sort(fair.rbegin(), fair.rend());
        CHECK(fair == (replicas == 2   ? std::vector<int>{8, 8}
                       : replicas == 3 ? std::vector<int>{6, 5, 5}
                                       : std::vector<int>{4, 4, 4, 4}));
    }
}

TEST_CASE("the nodes must be given and must divide the ranks") {
    const Layout layout = published_layout();
    DispatchContext context;
    CHECK_THROWS_AS(dispatch_table(find_dispatch_model("sglang-b"), layout, context), Error);
    CHECK_THROWS_AS(replica_shares(find_dispatch_model("sglang-c"), layout, context), Error);
    context.nodes = 3;
    CHECK_THROWS_AS(dispatch_table(find_dispatch_model("sglang-b"), layout, context), Error);
    context.nodes = 2;
    CHECK_NOTHROW(dispatch_table(find_dispatch_model("sglang-b"), layout, context));
}

TEST_CASE("time of all tables of 43 x 256 x 16", "[.time]") {
    const Layout layout = test::random_layout({43, 256, 16, 17}, 1);
    for (const char* model : {"sglang-a", "sglang-b", "sglang-c", "sglang-d"}) {
        for (const int nodes : {1, 2, 4}) {
            DispatchContext context;
            context.nodes = nodes;
            const std::clock_t start = std::clock();
            const DispatchTable table = dispatch_table(find_dispatch_model(model), layout, context);
            const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
            WARN(model << ", " << nodes << " nodes: " << seconds * 1e3 << " ms CPU for " << table.slots.size());
        }
    }
}
