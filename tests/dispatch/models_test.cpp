// Every model against a simulation that routes tokens one by one with its own reading of the rule.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "dispatch/model.hpp"
#include "random_layout.hpp"

using namespace eplb;
using test::layout_of;

namespace {

std::vector<int> slots_of(std::span<const ExpertId> row, int expert) {
    std::vector<int> slots;
    for (std::size_t slot = 0; slot < row.size(); ++slot) {
        if (row[slot].value == expert) slots.push_back(static_cast<int>(slot));
    }
    return slots;
}

// A token of `expert` on `rank`, the `number`-th of its expert, to a slot of one layer.
using Router = std::function<int(const std::vector<int>& replicas, int rank, int expert, int number)>;

struct Deployment {
    Geometry geometry;
    int nodes = 1;
    int slots_per_node() const { return geometry.physical_slots() / nodes; }
    int node(int rank) const { return rank * nodes / geometry.ranks; }
};

int own_or_same_node(const Deployment& deployment, const std::vector<int>& replicas, int rank) {
    for (const int slot : replicas) {
        if (slot / deployment.geometry.slots_per_rank == rank) return slot;
    }
    for (const int slot : replicas) {
        if (slot / deployment.slots_per_node() == deployment.node(rank)) return slot;
    }
    return -1;
}

int omni(const Deployment& deployment, const std::vector<int>& replicas, int rank) {
    std::vector<int> same_host;
    for (const int slot : replicas) {
        if (slot / deployment.geometry.slots_per_rank == rank) return slot;
        if (slot / deployment.slots_per_node() == deployment.node(rank)) same_host.push_back(slot);
    }
    const std::vector<int>& choice = same_host.empty() ? replicas : same_host;
    return choice[static_cast<std::size_t>(rank) % choice.size()];
}

// Loads of the slots of one layer when tokens_of_rank[r] tokens of every expert start on rank r.
std::vector<long> simulate(std::span<const ExpertId> row, const Geometry& geometry,
                           const std::vector<int>& tokens_of_rank, const Router& route) {
    std::vector<long> loads(row.size());
    for (int expert = 0; expert < geometry.experts; ++expert) {
        const std::vector<int> replicas = slots_of(row, expert);
        int number = 0;
        for (int rank = 0; rank < geometry.ranks; ++rank) {
            for (int token = 0; token < tokens_of_rank[static_cast<std::size_t>(rank)]; ++token, ++number) {
                ++loads[static_cast<std::size_t>(route(replicas, rank, expert, number))];
            }
        }
    }
    return loads;
}

}  // namespace

TEST_CASE("the hand example: 400 tokens of one expert on three replicas") {
    const Layout layout = layout_of({1, 6, 4, 2}, {0, 1, 0, 2, 0, 3, 4, 5});
    DispatchContext context;
    context.nodes = 1;
    const auto busiest_over_mean = [&](const char* model) {
        const ReplicaShares shares = replica_shares(find_dispatch_model(model), layout, context);
        double busiest = 0;
        for (std::size_t slot = 0; slot < 8; ++slot) {
            if (layout.row(0)[slot].value == 0) busiest = std::max(busiest, 400 * shares.row(0)[slot]);
        }
        return busiest / 100;
    };
    CHECK(busiest_over_mean("even") == Approx(4.0 / 3));
    CHECK(busiest_over_mean("sglang-c") == 2.0);
    CHECK(busiest_over_mean("sglang-dynamic-c") == 2.0);
    CHECK(busiest_over_mean("vllm-ascend") == 2.0);
    CHECK(busiest_over_mean("omni") == 2.0);
}

TEST_CASE("vllm-ascend's own example: rank 1 of two devices that share two experts") {
    const Layout layout = layout_of({1, 8, 2, 5}, {7, 2, 0, 3, 5, 6, 1, 4, 7, 2});
    const DispatchTable table = dispatch_table(find_dispatch_model("vllm-ascend"), layout, {});
    std::vector<int> row;
    for (const SlotId slot : table.row(1, 0)) row.push_back(slot.value);
    CHECK(row == std::vector<int>{2, 6, 9, 3, 7, 4, 5, 8});
}

TEST_CASE("vllm-ascend with tensor parallelism adds the rank in its group, the group and the expert") {
    const Layout layout = layout_of({1, 2, 4, 1}, {0, 1, 0, 1});
    DispatchContext context;
    context.tensor_parallel = 2;
    const DispatchTable table = dispatch_table(find_dispatch_model("vllm-ascend"), layout, context);
    // rank: 0 -> 0+0, 1 -> 1+0, 2 -> 0+1, 3 -> 1+1; expert 1 one further.
    for (int rank = 0; rank < 4; ++rank) {
        const int base = std::vector<int>{0, 1, 1, 2}[static_cast<std::size_t>(rank)];
        CHECK(table.row(rank, 0)[0].value == (base % 2 == 0 ? 0 : 2));
        CHECK(table.row(rank, 0)[1].value == ((base + 1) % 2 == 0 ? 1 : 3));
    }
    context.tensor_parallel = 0;
    CHECK_THROWS_AS(dispatch_table(find_dispatch_model("vllm-ascend"), layout, context), Error);
}

TEST_CASE("the shares of every static rule are those of tokens routed one by one, whatever each rank sends") {
    const Geometry geometry{2, 20, 12, 3};
    for (const int nodes : {1, 2, 3}) {
        const Deployment deployment{geometry, nodes};
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            const Layout layout = test::random_layout(geometry, seed);
            DispatchContext context;
            context.nodes = nodes;
            std::vector<int> tokens{1, 4, 2, 7, 3, 1, 5, 2, 6, 3, 0, 2};
            if (seed == 1) std::fill(tokens.begin(), tokens.end(), 1);
            context.source_weights.assign(tokens.begin(), tokens.end());
            long total = 0;
            for (const int number : tokens) total += number;
            const int tp = 4;

            const std::map<std::string, Router> routers{
                {"vllm-ascend", [](auto& replicas, int rank, int,
                                   int) { return replicas[static_cast<std::size_t>(rank) % replicas.size()]; }},
                {"vllm-ascend, tp",
                 [&](auto& replicas, int rank, int expert, int) {
                     return replicas[static_cast<std::size_t>(rank % tp + rank / tp + expert) % replicas.size()];
                 }},
                {"xllm", [](auto& replicas, int rank, int,
                            int) { return replicas[static_cast<std::size_t>(rank) % replicas.size()]; }},
                {"omni", [&](auto& replicas, int rank, int, int) { return omni(deployment, replicas, rank); }},
            };
            for (const auto& [name, router] : routers) {
                const std::string model = name.substr(0, name.find(','));
                context.tensor_parallel = model == name ? 1 : tp;
                const ReplicaShares shares = replica_shares(find_dispatch_model(model), layout, context);
                for (int layer = 0; layer < geometry.layers; ++layer) {
                    const std::vector<long> loads = simulate(layout.row(layer), geometry, tokens, router);
                    for (std::size_t slot = 0; slot < loads.size(); ++slot) {
                        INFO(name << ", layer " << layer << ", slot " << slot);
                        CHECK(shares.row(layer)[slot] * static_cast<double>(total) == Approx(loads[slot]).margin(1e-9));
                    }
                }
            }
        }
    }
}

TEST_CASE("SGLang's static rules keep what is near and deal the rest") {
    const Geometry geometry{2, 20, 12, 3};
    for (const int nodes : {1, 2, 4}) {
        const Deployment deployment{geometry, nodes};
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            const Layout layout = test::random_layout(geometry, seed);
            DispatchContext context;
            context.nodes = nodes;
            for (const char* model : {"sglang-b-fill-all", "sglang-c", "sglang-c-one-stream"}) {
                const DispatchTable table = dispatch_table(find_dispatch_model(model), layout, context);
                const ReplicaShares shares = replica_shares(find_dispatch_model(model), layout, context);
                for (int layer = 0; layer < geometry.layers; ++layer) {
                    const Router by_table = [&](auto&, int rank, int expert, int) {
                        return table.row(rank, layer)[static_cast<std::size_t>(expert)].value;
                    };
                    const std::vector<long> loads =
                        simulate(layout.row(layer), geometry, std::vector<int>(12, 1), by_table);
                    for (std::size_t slot = 0; slot < loads.size(); ++slot) {
                        CHECK(shares.row(layer)[slot] * 12 == Approx(loads[slot]).margin(1e-9));
                    }
                    for (int expert = 0; expert < geometry.experts; ++expert) {
                        const std::vector<int> replicas = slots_of(layout.row(layer), expert);
                        std::map<int, int> dealt;
                        for (const int slot : replicas) dealt[slot] = 0;
                        for (int rank = 0; rank < geometry.ranks; ++rank) {
                            const int near = own_or_same_node(deployment, replicas, rank);
                            const int slot = table.row(rank, layer)[static_cast<std::size_t>(expert)].value;
                            if (near != -1) {
                                CHECK(slot == near);
                            } else {
                                REQUIRE(dealt.count(slot) == 1);
                                ++dealt[slot];
                            }
                        }
                        // One stream deals evenly; R streams do so on average only.
                        if (std::string(model) != "sglang-c") {
                            const auto [fewest, most] = std::minmax_element(
                                dealt.begin(), dealt.end(), [](auto& a, auto& b) { return a.second < b.second; });
                            CHECK(most->second - fewest->second <= 1);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("TensorRT-LLM's round robin is even up to a token a block and replica") {
    const Geometry geometry{1, 8, 4, 3};
    const Layout layout = test::random_layout(geometry, 3);
    // The engine counts an expert's occurrences inside a block of 1024 assignments, and adds the block's index.
    const int per_block = 100, blocks = 7;
    const Router route = [&](auto& replicas, int, int, int number) {
        return replicas[static_cast<std::size_t>(number % per_block + number / per_block) % replicas.size()];
    };
    const std::vector<int> tokens(4, per_block * blocks / 4);
    const std::vector<long> loads = simulate(layout.row(0), geometry, tokens, route);
    const ReplicaShares shares = replica_shares(find_dispatch_model("trtllm"), layout, {});
    for (std::size_t slot = 0; slot < loads.size(); ++slot) {
        CHECK(std::abs(shares.row(0)[slot] * per_block * blocks - static_cast<double>(loads[slot])) <= blocks);
    }
}

TEST_CASE("models that choose at random per token are even within the noise of the tokens") {
    const Geometry geometry{1, 10, 4, 4};
    const Layout layout = test::random_layout(geometry, 4);
    Random random(1);
    // vLLM: position in the flat top-k array modulo the count; SGLang dynamic: 16 random bits modulo the count.
    const Router by_position = [&](auto& replicas, int, int, int) {
        return replicas[random.below(1u << 20) % replicas.size()];
    };
    const Router by_bits = [&](auto& replicas, int, int, int) {
        return replicas[random.below(65536) % replicas.size()];
    };
    const int tokens = 40000;
    for (const auto& [name, route] : std::map<std::string, Router>{{"vllm", by_position},
                                                                   {"sglang-dynamic-a", by_bits},
                                                                   {"sglang-dynamic-b-fill-all", by_bits},
                                                                   {"sglang-dynamic-c-one-stream", by_bits},
                                                                   {"sglang-dynamic-d-no-a2a", by_bits},
                                                                   {"even", by_position}}) {
        const std::vector<long> loads = simulate(layout.row(0), geometry, std::vector<int>(4, tokens / 4), route);
        const ReplicaShares shares = replica_shares(find_dispatch_model(name), layout, {});
        for (std::size_t slot = 0; slot < loads.size(); ++slot) {
            CHECK(std::abs(shares.row(0)[slot] * tokens - static_cast<double>(loads[slot])) <= 5 * std::sqrt(tokens));
        }
    }
}

TEST_CASE("SGLang dynamic of generation C is static on one node and random only between nodes") {
    const Geometry geometry{2, 20, 12, 3};
    const Layout layout = test::random_layout(geometry, 7);
    DispatchContext context;
    context.nodes = 1;
    CHECK(replica_shares(find_dispatch_model("sglang-dynamic-c"), layout, context).values ==
          replica_shares(find_dispatch_model("sglang-c"), layout, context).values);
    // Four ranks on two nodes; expert 0 on ranks 0 and 1 of node 0: rank 0 and 1 serve themselves, 2 and 3 choose.
    context.nodes = 2;
    context.source_weights = {1, 2, 3, 4};
    const Layout small = layout_of({1, 7, 4, 2}, {0, 1, 0, 2, 3, 4, 5, 6});
    const ReplicaShares shares = replica_shares(find_dispatch_model("sglang-dynamic-c"), small, context);
    CHECK(shares.row(0)[0] == Approx((1 + 3.5) / 10));
    CHECK(shares.row(0)[2] == Approx((2 + 3.5) / 10));
}

TEST_CASE("SGLang dynamic of generation D looks for the node only where it holds a part of the replicas") {
    // Six ranks on two nodes, which send 1..6. Expert 0 on ranks 0 and 1, both of node 0; expert 1 on ranks 0 and 3.
    const Layout layout = layout_of({1, 10, 6, 2}, {0, 1, 0, 2, 3, 4, 1, 5, 6, 7, 8, 9});
    DispatchContext context;
    context.nodes = 2;
    context.source_weights = {1, 2, 3, 4, 5, 6};
    const auto shares_of = [&](const char* model, int expert) {
        const ReplicaShares shares = replica_shares(find_dispatch_model(model), layout, context);
        std::vector<double> found;
        for (const int slot : slots_of(layout.row(0), expert)) {
            found.push_back(std::round(2 * 21 * shares.row(0)[static_cast<std::size_t>(slot)]) / 2);  // halves
        }
        return found;
    };
    // Node 0 has all of expert 0: rank 2 chooses as ranks 3 to 5 do. In C it is served by rank 0.
    CHECK(shares_of("sglang-dynamic-d-subset", 0) == std::vector<double>{1 + 9.0, 2 + 9.0});
    CHECK(shares_of("sglang-dynamic-c", 0) == std::vector<double>{4 + 7.5, 2 + 7.5});
    // Each node has one of two replicas of expert 1: nobody chooses, unless the node never counts.
    CHECK(shares_of("sglang-dynamic-d-subset", 1) == std::vector<double>{6, 15});
    CHECK(shares_of("sglang-dynamic-d-elastic", 1) == std::vector<double>{1 + 8.0, 4 + 8.0});
}

TEST_CASE("a given table is used as it stands, and refused when it is for another layout") {
    const Layout layout = layout_of({1, 6, 4, 2}, {0, 1, 0, 2, 0, 3, 4, 5});
    DispatchTable table = dispatch_table(find_dispatch_model("omni"), layout, [] {
        DispatchContext context;
        context.nodes = 2;
        return context;
    }());
    DispatchContext context;
    CHECK_THROWS_AS(replica_shares(find_dispatch_model("table"), layout, context), Error);
    context.table = &table;
    CHECK(dispatch_table(find_dispatch_model("table"), layout, context) == table);
    CHECK_NOTHROW(replica_shares(find_dispatch_model("table"), layout, context));

    for (const int wrong : {-1, 8, 1}) {  // outside, outside, slot 1 holds expert 1
        table.row(3, 0)[0] = SlotId{wrong};
        CHECK_THROWS_AS(replica_shares(find_dispatch_model("table"), layout, context), Error);
    }
    table = DispatchTable(3, 1, 6);
    CHECK_THROWS_AS(replica_shares(find_dispatch_model("table"), layout, context), Error);
}

TEST_CASE("source weights are refused when they are not one amount a rank") {
    const Layout layout = layout_of({1, 6, 4, 2}, {0, 1, 0, 2, 0, 3, 4, 5});
    const auto shares = [&](std::vector<double> weights) {
        DispatchContext context;
        context.source_weights = std::move(weights);
        return replica_shares(find_dispatch_model("xllm"), layout, context);
    };
    CHECK_NOTHROW(shares({1, 1, 0, 2}));
    CHECK_THROWS_AS(shares({1, 1, 1}), Error);
    CHECK_THROWS_AS(shares({1, 1, 1, -1}), Error);
    CHECK_THROWS_AS(shares({1, 1, 1, NAN}), Error);
    CHECK_THROWS_AS(shares({0, 0, 0, 0}), Error);
}

TEST_CASE("an expert without a replica is named") {
    const Layout layout = layout_of({1, 3, 2, 2}, {0, 1, 0, 1});
    for (const DispatchModel& model : dispatch_models()) {
        if (model.name == "table") continue;
        DispatchContext context;
        context.nodes = 1;
        try {
            replica_shares(model, layout, context);
            FAIL(model.name << " accepted it");
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::input);
            CHECK(std::string(error.what()).find("layer 0: expert 2 ") != std::string::npos);
        }
    }
}

TEST_CASE("contract of every model: shares add up to exactly 1, and settled sources are those of the rule") {
    const Geometry geometry{2, 23, 12, 3};
    for (const DispatchModel& model : dispatch_models()) {
        if (model.name == "table") continue;
        for (const int nodes : {1, 2, 3}) {
            const Layout layout = test::random_layout(geometry, static_cast<std::uint64_t>(nodes));
            DispatchContext context;
            context.nodes = nodes;
            const std::vector<DispatchSource> sources = dispatch_sources(geometry, context);
            const ReplicaShares equal = replica_shares(model, layout, context);
            context.source_weights = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8.97};
            const ReplicaShares weighted = replica_shares(model, layout, context);
            for (int layer = 0; layer < geometry.layers; ++layer) {
                for (int expert = 0; expert < geometry.experts; ++expert) {
                    std::vector<SlotId> replicas;
                    for (const int slot : slots_of(layout.row(layer), expert)) replicas.push_back(SlotId{slot});
                    double sum = 0, weighted_sum = 0;
                    int sources_seen = 0;
                    std::vector<int> settled(replicas.size());
                    const int unsettled = settled_sources(model, sources, replicas, expert, settled);
                    for (std::size_t i = 0; i < replicas.size(); ++i) {
                        const auto slot = static_cast<std::size_t>(replicas[i].value);
                        sum += equal.row(layer)[slot];
                        weighted_sum += weighted.row(layer)[slot];
                        sources_seen += settled[i];
                        // A fill deals whole ranks: by less than one rank from its mean in a stream of its own, by
                        // luck when every rank has its own.
                        const bool dealt = model.seeded != nullptr;
                        const double expected = settled[i] + unsettled / static_cast<double>(replicas.size());
                        const double allowed = !dealt ? 1e-9 : model.seeded->own_streams ? 8.0 : 1.0;
                        CHECK(std::abs(expected - 12 * equal.row(layer)[slot]) < allowed);
                    }
                    CHECK(sources_seen + unsettled == geometry.ranks);
                    CHECK(sum == 1.0);
                    CHECK(weighted_sum == 1.0);
                }
            }
            if (model.table == nullptr) {
                CHECK_THROWS_AS(dispatch_table(model, layout, context), Error);
                continue;
            }
            const DispatchTable table = dispatch_table(model, layout, context);
            for (int rank = 0; rank < geometry.ranks; ++rank) {
                for (int layer = 0; layer < geometry.layers; ++layer) {
                    for (int expert = 0; expert < geometry.experts; ++expert) {
                        const int slot = table.row(rank, layer)[static_cast<std::size_t>(expert)].value;
                        CHECK(layout.row(layer)[static_cast<std::size_t>(slot)].value == expert);
                    }
                }
            }
        }
    }
}

TEST_CASE("an unknown model is answered with the names, and one without its generation with the generations") {
    const auto hint_of = [](const char* name) -> std::string {
        try {
            find_dispatch_model(name);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::usage);
            return error.hint();
        }
        return "accepted";
    };
    CHECK(hint_of("best").find("sglang-b-fill-all") != std::string::npos);
    CHECK(hint_of("best").find("omni") != std::string::npos);
    CHECK(hint_of("sglang-dynamic")
              .find("one of sglang-dynamic-a, sglang-dynamic-b-fill-all, sglang-dynamic-c, "
                    "sglang-dynamic-c-one-stream, sglang-dynamic-d-subset, sglang-dynamic-d-elastic, "
                    "sglang-dynamic-d-no-a2a;") != std::string::npos);
    CHECK(hint_of("sglang").find("one of sglang-a, sglang-b-fill-all, sglang-c, sglang-c-one-stream, "
                                 "sglang-d-subset, sglang-d-elastic;") != std::string::npos);
    CHECK(hint_of("vllm") == "accepted");
}

TEST_CASE("names that stood for no rule of SGLang say what to give instead, with periods and releases") {
    const auto hint_of = [](const char* name) -> std::string {
        try {
            find_dispatch_model(name);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::usage);
            CHECK(std::string(error.what()).find(name) != std::string::npos);
            return error.hint();
        }
        return "accepted";
    };
    CHECK(hint_of("sglang-b") ==
          "give sglang-b-fill-all for SGLang of 2025-09-22 to 10-27 (0.5.3 to 0.5.4.post1), or sglang-c-one-stream for "
          "2025-11-11 and 2025-11-15 to 11-20 (0.5.5.post2 and .post3)");
    CHECK(hint_of("sglang-dynamic-b").starts_with("give sglang-dynamic-b-fill-all for"));
    CHECK(hint_of("sglang-d").starts_with("give sglang-d-subset for SGLang from 2026-07-16 (0.5.16), "));
    CHECK(hint_of("sglang-dynamic-d").find("sglang-dynamic-d-no-a2a") != std::string::npos);
}
