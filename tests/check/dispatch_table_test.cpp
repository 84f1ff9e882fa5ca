#include "check/dispatch_table.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace eplb;

namespace {

// Experts 0..2 on two ranks of two slots, expert 0 twice; rank 0 sends expert 0 to slot 0, rank 1 to slot 2.
Layout layout() {
    return Layout(Geometry{1, 3, 2, 2}, {ExpertId{0}, ExpertId{1}, ExpertId{0}, ExpertId{2}});
}
DispatchTable table() {
    DispatchTable table(2, 1, 3);
    table.slots = {SlotId{0}, SlotId{1}, SlotId{3}, SlotId{2}, SlotId{1}, SlotId{3}};
    return table;
}

}  // namespace

TEST_CASE("a table that sends every expert where it is has no findings") {
    CHECK(check_dispatch_table(table(), layout()).empty());
}

TEST_CASE("a table for other ranks is refused") {
    const auto findings = check_dispatch_table(DispatchTable(3, 1, 3), layout());
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "TABLE_SHAPE_MISMATCH");
    CHECK(findings[0].severity == Severity::error);
}

TEST_CASE("slots outside the layout and slots of other experts are counted, the first is placed") {
    for (const int outside : {-1, 4}) {
        DispatchTable wrong = table();
        wrong.row(1, 0)[2] = SlotId{outside};
        const auto findings = check_dispatch_table(wrong, layout());
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].code == "TABLE_SLOT_OUT_OF_RANGE");
        CHECK(findings[0].where == "rank 1, layer 0, expert 2");
    }
    DispatchTable wrong = table();
    wrong.row(0, 0)[1] = SlotId{3};
    wrong.row(1, 0)[1] = SlotId{0};
    const auto findings = check_dispatch_table(wrong, layout());
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "TABLE_WRONG_EXPERT");
    CHECK(findings[0].where == "rank 0, layer 0, expert 1");
    CHECK(findings[0].message == "2 entries with a slot of another expert; the first fault: slot 3 holds expert 2");
}

TEST_CASE("a replica that no rank sends to is noted") {
    DispatchTable lazy = table();
    lazy.row(1, 0)[0] = SlotId{0};
    const auto findings = check_dispatch_table(lazy, layout());
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "REPLICAS_UNUSED");
    CHECK(findings[0].severity == Severity::info);
}
