#include "dispatch/table_match.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "random_layout.hpp"

using namespace eplb;

namespace {

const TableMatch& of_model(const std::vector<TableMatch>& matches, std::string_view model) {
    for (const TableMatch& match : matches) {
        if (match.model == model) return match;
    }
    throw Error(ErrorCode::internal, "", "no such model");
}

DispatchTable row_of(const DispatchTable& table, int process) {
    DispatchTable row(1, table.layers, table.experts);
    for (int layer = 0; layer < table.layers; ++layer) {
        std::ranges::copy(table.row(process, layer), row.row(0, layer).begin());
    }
    return row;
}

}  // namespace

TEST_CASE("every static rule is found again in its own table, with the nodes that made it") {
    const Layout layout = test::random_layout({3, 40, 16, 4}, 11);
    for (const DispatchModel& model : dispatch_models()) {
        if (model.table == nullptr || model.targets == nullptr) continue;
        CAPTURE(model.name);
        DispatchContext context;
        context.nodes = 4;
        if (model.uses_tensor_parallel) context.tensor_parallel = 2;
        const DispatchTable table = dispatch_table(model, layout, context);
        for (const bool alone : {false, true}) {
            const auto matches =
                alone ? match_table(layout, row_of(table, 5), {}, 5) : match_table(layout, table, {}, std::nullopt);
            const TableMatch& own = of_model(matches, model.name);
            CHECK(own.different == 0);
            if (model.needs_nodes && !alone) CHECK(own.nodes == 4);
            if (model.uses_tensor_parallel && !alone) CHECK(own.tensor_parallel == 2);
            CHECK(matches.front().different == 0);
        }
        if (model.seeded == nullptr) continue;
        context.moe_tensor_parallel = 2;
        const auto in_world = match_table(layout, dispatch_table(model, layout, context), context, std::nullopt);
        CHECK(of_model(in_world, model.name).different == 0);
    }
}

TEST_CASE("a near miss names its first differing entry") {
    const Layout layout = test::layout_of({1, 3, 4, 1}, {0, 1, 0, 2});
    DispatchTable table = dispatch_table(find_dispatch_model("xllm"), layout, {});
    // xLLM: rank modulo 2, so ranks 0 and 2 use slot 0, ranks 1 and 3 slot 2. Rank 1 is made to use slot 0.
    table.row(1, 0)[0] = SlotId{0};
    const auto matches = match_table(layout, table, {}, std::nullopt);
    const TableMatch& xllm = of_model(matches, "xllm");
    CHECK(xllm.different == 1);
    CHECK(xllm.process == 1);
    CHECK(xllm.layer == 0);
    CHECK(xllm.expert == 0);
    CHECK(xllm.by_rule.value == 2);
    CHECK(xllm.in_table.value == 0);
}

TEST_CASE("a table for other ranks, layers or experts is refused, and a row that no process has") {
    const Layout layout = test::random_layout({2, 20, 8, 3}, 1);
    CHECK_THROWS_AS(match_table(layout, DispatchTable(7, 2, 20), {}, std::nullopt), Error);
    CHECK_THROWS_AS(match_table(layout, DispatchTable(8, 3, 20), {}, std::nullopt), Error);
    CHECK_THROWS_AS(match_table(layout, DispatchTable(8, 2, 19), {}, std::nullopt), Error);
    CHECK_THROWS_AS(match_table(layout, DispatchTable(8, 2, 20), {}, 3), Error);
    CHECK_THROWS_AS(match_table(layout, DispatchTable(1, 2, 20), {}, 8), Error);
    CHECK_NOTHROW(match_table(layout, DispatchTable(1, 2, 20), {}, 7));
    CHECK_NOTHROW(match_table(layout, DispatchTable(8, 2, 20), {}, std::nullopt));
}
