#include <catch2/catch.hpp>

#include "check/layout.hpp"
#include "core/error.hpp"
#include "samples.hpp"

using namespace eplb;

namespace {

using RawMap = std::vector<std::vector<std::int64_t>>;

RawLayout raw(RawMap map) {
    RawLayout layout;
    layout.rows = std::move(map);
    return layout;
}

// Two layers, 4 experts on 2 ranks x 3 slots.
RawMap legal() {
    return {{0, 3, 1, 2, 3, 0}, {1, 2, 0, 3, 2, 1}};
}

LayoutExpectation expectation() {
    LayoutExpectation result;
    result.ranks = 2;
    result.experts = 4;
    return result;
}

Finding finding_of(const RawMap& map, const LayoutExpectation& wanted, const std::string& code) {
    return find(check_layout(raw(map), wanted).findings, code);
}

}  // namespace

TEST_CASE("a legal layout has no finding") {
    const LayoutReport report = check_layout(raw(legal()), expectation());
    CHECK(report.findings.empty());
    CHECK(report.geometry == Geometry{2, 4, 2, 3});
}

TEST_CASE("nothing more is asked of a layout with more rows than a model has layers") {
    const auto codes = [&](std::size_t rows) {
        std::vector<std::string> found;
        LayoutExpectation open;
        open.ranks = 1;
        for (const Finding& finding : check_layout(raw(RawMap(rows, {0, 1})), open).findings) {
            found.push_back(finding.code);
        }
        return found;
    };
    CHECK(codes(max_layers) == std::vector<std::string>{"EXPERTS_NOT_STATED", "SAME_ROW_IN_ALL_LAYERS"});
    CHECK(codes(max_layers + 1) == std::vector<std::string>{"LAYOUT_TOO_LARGE"});
}

TEST_CASE("ids up to the ends of 64 bits are outside the experts") {
    LayoutExpectation open;
    open.ranks = 2;
    const Finding above = finding_of({{0, INT64_MAX}}, open, "EXPERT_OUT_OF_RANGE");
    CHECK_THAT(above.message, Catch::Contains("9223372036854775807 is outside 0..65535"));
    const Finding below = finding_of({{0, INT64_MIN + 1}}, open, "NEGATIVE_EXPERT");
    CHECK_THAT(below.message, Catch::Contains("-9223372036854775807"));
}

TEST_CASE("rows of different lengths are no rectangle") {
    RawMap map = legal();
    map[1].pop_back();
    const Finding finding = finding_of(map, expectation(), "NOT_RECTANGULAR");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.where == "layer 1");
    CHECK(finding.message == "5 physical slots, layer 0 has 6");
    CHECK(finding_of({}, expectation(), "NOT_RECTANGULAR").severity == Severity::error);
    CHECK(finding_of({{}, {}}, expectation(), "NOT_RECTANGULAR").severity == Severity::error);
    CHECK_FALSE(check_layout(raw(map), expectation()).geometry);
}

TEST_CASE("the number of rows is the number of hidden layers") {
    LayoutExpectation wanted = expectation();
    wanted.layers = 2;
    CHECK(finding_of(legal(), wanted, "LAYERS_MISMATCH").code.empty());
    wanted.layers = 5;
    CHECK(finding_of(legal(), wanted, "LAYERS_MISMATCH").message == "2 rows, --layers says 5");
}

TEST_CASE("physical slots divide by the ranks and are experts + redundant") {
    LayoutExpectation wanted = expectation();
    wanted.ranks = 4;
    CHECK(finding_of(legal(), wanted, "SLOTS_NOT_DIVISIBLE").severity == Severity::error);
    wanted = expectation();
    wanted.redundant_total = 2;
    CHECK(finding_of(legal(), wanted, "REDUNDANCY_MISMATCH").code.empty());
    wanted.redundant_total = 4;
    CHECK(finding_of(legal(), wanted, "REDUNDANCY_MISMATCH").severity == Severity::error);
    wanted.redundant_total.reset();
    wanted.experts = 7;
    CHECK(finding_of(legal(), wanted, "TOO_FEW_SLOTS").severity == Severity::error);
}

TEST_CASE("ids below zero and ids of another model are named with their place") {
    RawMap map = legal();
    map[1][4] = -1;
    const Finding negative = finding_of(map, expectation(), "NEGATIVE_EXPERT");
    CHECK(negative.severity == Severity::error);
    CHECK(negative.where == "layer 1, physical slot 4 (rank 1)");
    CHECK(negative.hint == "a server would silently take -1 as expert 3");
    map[1][4] = 4;
    CHECK(finding_of(map, expectation(), "EXPERT_OUT_OF_RANGE").severity == Severity::error);
    map[1][4] = no_number;  // reported by the reader
    CHECK(check_layout(raw(map), expectation()).findings.empty());
}

TEST_CASE("an absurd id does not decide the number of experts") {
    RawMap map = legal();
    map[0][0] = std::int64_t{1} << 60;
    LayoutExpectation wanted = expectation();
    wanted.experts.reset();
    CHECK(finding_of(map, wanted, "EXPERT_OUT_OF_RANGE").severity == Severity::error);
}

TEST_CASE("every expert is in every row") {
    RawMap map = legal();
    map[1] = {1, 2, 0, 2, 0, 1};
    const Finding finding = finding_of(map, expectation(), "EXPERT_MISSING");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.where == "layer 1, expert 3");
    CHECK(finding.message == "no physical slot holds it; 1 expert missing in 1 layer");
}

TEST_CASE("the number of experts follows from the redundancy or the ids when it is not given") {
    RawMap map{{0, 1, 2, 0, 1, 2}, {2, 1, 0, 2, 1, 0}};
    LayoutExpectation wanted;
    wanted.ranks = 2;
    CHECK(check_layout(raw(map), wanted).geometry->experts == 3);
    CHECK(finding_of(map, wanted, "EXPERTS_NOT_STATED").severity == Severity::info);
    wanted.redundant_total = 2;  // 4 experts: the last one is missing everywhere
    CHECK(finding_of(map, wanted, "EXPERT_MISSING").message ==
          "no physical slot holds it; 2 experts missing in 2 layers");
}

TEST_CASE("an expert twice on one rank is an error, on two ranks it is a replica") {
    RawMap map = legal();
    map[0] = {0, 3, 3, 2, 1, 0};
    const Finding finding = finding_of(map, expectation(), "EXPERT_TWICE_ON_RANK");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.where == "layer 0, physical slot 2 (rank 0)");
    CHECK(finding.message == "expert 3 is on rank 0 already; 1 such slot in 1 layer");
    map[0] = {0, 2, 3, 3, 1, 0};
    CHECK(check_layout(raw(map), expectation()).findings.empty());
}

TEST_CASE("three copies on a rank are two surplus slots") {
    const RawMap map{{3, 3, 3, 0, 1, 2}};
    CHECK(finding_of(map, expectation(), "EXPERT_TWICE_ON_RANK").message ==
          "expert 3 is on rank 0 already; 2 such slots in 1 layer");
}

TEST_CASE("more replicas than ranks are an error") {
    const RawMap map{{0, 1, 2, 0, 3, 0}};
    CHECK(finding_of(map, expectation(), "MORE_REPLICAS_THAN_RANKS").message == "3 replicas on 2 ranks");
}

TEST_CASE("an engine's table of replicas is limited") {
    RawMap map(1);
    for (int rank = 0; rank < 1025; ++rank) map[0].push_back(0);
    map[0].push_back(1);
    LayoutExpectation wanted;
    wanted.ranks = 1026;
    wanted.experts = 2;
    CHECK(finding_of(map, wanted, "TOO_MANY_REPLICAS").severity == Severity::warning);
    wanted.target = &find_layout_target("sglang");
    CHECK(finding_of(map, wanted, "TOO_MANY_REPLICAS").code.empty());
}

TEST_CASE("nodes divide the ranks, and SGLang wants to know them") {
    LayoutExpectation wanted = expectation();
    wanted.target = &find_layout_target("sglang");
    CHECK(finding_of(legal(), wanted, "NODES_NOT_STATED").severity == Severity::info);
    wanted.nodes = 2;
    CHECK(check_layout(raw(legal()), wanted).findings.empty());
    wanted.nodes = 3;
    CHECK(finding_of(legal(), wanted, "NODES_DO_NOT_DIVIDE").severity == Severity::error);
    CHECK_THROWS_AS(find_layout_target("sglnag"), Error);
}

TEST_CASE("one row for all layers is mentioned") {
    const RawMap map(3, legal()[0]);
    CHECK(finding_of(map, expectation(), "SAME_ROW_IN_ALL_LAYERS").severity == Severity::info);
}

TEST_CASE("a layout in memory is judged by the same rules") {
    CHECK(check_layout(trivial_layout({3, 4, 2, 3})).empty());
    const Layout twice({1, 4, 2, 3}, {ExpertId{0}, ExpertId{1}, ExpertId{1}, ExpertId{2}, ExpertId{3}, ExpertId{0}});
    CHECK(find(check_layout(twice), "EXPERT_TWICE_ON_RANK").severity == Severity::error);
    CHECK(find(check_layout(Layout({1, 4, 2, 3})), "EXPERT_MISSING").severity == Severity::error);
}
