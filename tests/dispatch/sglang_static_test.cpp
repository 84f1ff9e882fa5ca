#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "dispatch/model.hpp"
#include "random_layout.hpp"

using namespace eplb;
using test::layout_of;

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
    CHECK(layer_rows("sglang-b-fill-all", 1) == published);
    CHECK(layer_rows("sglang-c", 1) == published);
}

TEST_CASE("generation B on four nodes prefers the node and deals to the ranks left over") {
    CHECK(layer_rows("sglang-b-fill-all", 4) == Rows{{0, 1, 2, 4, 5, 22, 16, 9},
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
}

TEST_CASE("the second layer shows that the streams of B and C have gone apart") {
    CHECK(layer_rows("sglang-b-fill-all", 2, 1)[1] == std::vector<int>{23, 5, 4, 3, 2, 1, 0, 6});
    CHECK(layer_rows("sglang-c", 2, 1)[1] == std::vector<int>{20, 5, 4, 3, 2, 1, 0, 6});
}

TEST_CASE("where every expert has several replicas, B's fills are those of C with one stream") {
    for (const int nodes : {1, 2, 4, 8}) {
        CHECK(layer_rows("sglang-b-fill-all", nodes, 1) == layer_rows("sglang-c-one-stream", nodes, 1));
    }
}

// What CPython's random.Random(42) deals: fills of two replicas to 3 ranks are 0 1 0, then 1 0 0.

TEST_CASE("B draws for an expert with one replica on another node, C does not") {
    // Eight ranks on two nodes, one slot each. Expert 0 is alone on rank 0: in B ranks 4 to 7 are dealt it, which takes
    // words of the stream. Expert 1 is on ranks 1 and 3, so that ranks 4 to 7 are dealt these.
    const Layout layout = layout_of({1, 7, 8, 1}, {0, 1, 2, 1, 3, 4, 5, 6});
    const auto dealt = [&](const char* model) {
        DispatchContext context;
        context.nodes = 2;
        const DispatchTable table = dispatch_table(find_dispatch_model(model), layout, context);
        std::vector<int> slots;
        for (int rank = 4; rank < 8; ++rank) slots.push_back(table.row(rank, 0)[1].value);
        return slots;
    };
    CHECK(dealt("sglang-c-one-stream") == std::vector{1, 3, 3, 1});
    CHECK(dealt("sglang-b-fill-all") == std::vector{3, 1, 1, 3});
}

TEST_CASE("D on one node deals to all ranks without a replica, each from the stream that its own draws left") {
    // Layer 0: expert 0 on ranks 3 and 4, layer 1: on ranks 1 and 2. In layer 1 ranks 3 and 4 draw for the first time
    // and take the second and third of 0 1 0; rank 0 draws for the second time and takes the first of 1 0 0.
    const Layout layout = layout_of({2, 4, 5, 1}, {1, 2, 3, 0, 0, 1, 0, 0, 2, 3});
    DispatchContext context;
    context.nodes = 1;
    const auto column = [&](const char* model, int layer) {
        const DispatchTable table = dispatch_table(find_dispatch_model(model), layout, context);
        std::vector<int> slots;
        for (int rank = 0; rank < 5; ++rank) slots.push_back(table.row(rank, layer)[0].value);
        return slots;
    };
    for (const char* model : {"sglang-d-subset", "sglang-d-elastic"}) {
        CHECK(column(model, 0) == std::vector{3, 4, 3, 3, 4});
        CHECK(column(model, 1) == std::vector{2, 1, 2, 2, 1});
    }
    CHECK(column("sglang-c", 0) == std::vector{3, 3, 3, 3, 4});
}

TEST_CASE("D prefers the node only where it holds a part of the replicas") {
    // Eight ranks on two nodes, one slot each. Layer 0: expert 0 on ranks 1 and 6, one on each node. Layer 1: on ranks
    // 1 and 2, so that the six other ranks are dealt, in C only the four of node 1.
    const Layout layout = layout_of({2, 7, 8, 1}, {1, 0, 2, 3, 4, 5, 0, 6, 1, 0, 0, 2, 3, 4, 5, 6});
    DispatchContext context;
    context.nodes = 2;
    const auto column = [&](const char* model, int layer) {
        const DispatchTable table = dispatch_table(find_dispatch_model(model), layout, context);
        std::vector<int> slots;
        for (int rank = 0; rank < 8; ++rank) slots.push_back(table.row(rank, layer)[0].value);
        return slots;
    };
    for (const char* model : {"sglang-c", "sglang-d-subset"}) {
        CHECK(column(model, 0) == std::vector{1, 1, 1, 1, 6, 6, 6, 6});
    }
    const std::vector in_c = column("sglang-c", 1), in_d = column("sglang-d-subset", 1);
    CHECK((in_c[0] == 1 && in_c[3] == 1));
    CHECK(std::vector(in_c.begin() + 4, in_c.end()) == std::vector{1, 2, 2, 1});
    CHECK(in_d == std::vector{2, 1, 2, 2, 1, 1, 1, 2});
}

TEST_CASE("where experts are shared by several processes, D reads the row of the EP rank, C that of the global rank") {
    // Two EP ranks of two processes each: process g has EP rank g / 2. Expert 0 is on both.
    const Layout layout = layout_of({1, 3, 2, 2}, {0, 1, 0, 2});
    DispatchContext context;
    context.nodes = 1;
    context.moe_tensor_parallel = 2;
    const auto column = [&](const char* model) {
        const DispatchTable table = dispatch_table(find_dispatch_model(model), layout, context);
        std::vector<int> slots;
        for (int process = 0; process < table.ranks; ++process) slots.push_back(table.row(process, 0)[0].value);
        return slots;
    };
    CHECK(column("sglang-d-subset") == std::vector{0, 0, 2, 2});
    CHECK(column("sglang-a") == std::vector{0, 2, 0, 2});
    CHECK(column("sglang-c") == std::vector{0, 0, 2, 2});  // each has shortened its lists to the one it owns
    context.pipeline_stages = 2;
    CHECK(column("sglang-a") == std::vector{0, 2, 0, 2, 0, 2, 0, 2});
    context.nodes = 3;
    CHECK_THROWS_AS(column("sglang-c"), Error);  // 8 processes on 3 nodes
    context.nodes = 4;
    CHECK_THROWS_AS(column("sglang-c"), Error);  // 2 EP ranks / 4 nodes = 0 a node
    context.nodes = 2;
    CHECK_NOTHROW(column("sglang-c"));
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
        CHECK(sources("sglang-b-fill-all") == first_takes_all);
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
    CHECK_THROWS_AS(dispatch_table(find_dispatch_model("sglang-b-fill-all"), layout, context), Error);
    CHECK_THROWS_AS(replica_shares(find_dispatch_model("sglang-c"), layout, context), Error);
    context.nodes = 3;
    CHECK_THROWS_AS(dispatch_table(find_dispatch_model("sglang-b-fill-all"), layout, context), Error);
    context.nodes = 2;
    CHECK_NOTHROW(dispatch_table(find_dispatch_model("sglang-b-fill-all"), layout, context));
}

TEST_CASE("time of all tables of 43 x 256 x 16", "[.time]") {
    const Layout layout = test::random_layout({43, 256, 16, 17}, 1);
    for (const char* model : {"sglang-a", "sglang-b-fill-all", "sglang-c", "sglang-d-subset"}) {
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
