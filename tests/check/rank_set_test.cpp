// Per-rank files are summed only when they are one whole window.
#include <catch2/catch.hpp>

#include <functional>

#include "check/rank_set.hpp"

using namespace eplb;

namespace {

WindowFacts share_of(int rank) {
    WindowFacts facts;
    facts.name = "w";
    facts.rank = rank;
    facts.members = {0, 1, 2};
    facts.sequence = {4, 5};
    facts.layouts = {"digest"};
    return facts;
}

CountReport report(std::optional<WindowFacts> facts) {
    CountReport one;
    one.path = "Y.rank" + std::to_string(facts && facts->rank ? *facts->rank : -1) + ".pt";
    one.reduction = Reduction::per_rank;
    one.window = std::move(facts);
    return one;
}

std::vector<Finding> findings_of(const std::vector<std::optional<WindowFacts>>& shares, std::optional<int> ranks = {}) {
    std::vector<CountReport> reports;
    for (const auto& share : shares) reports.push_back(report(share));
    CountOptions options;
    options.ranks = ranks;
    std::vector<Finding> findings;
    check::check_rank_set(reports, options, findings);
    return findings;
}

}  // namespace

TEST_CASE("one file of every rank is a whole window, in any order") {
    CHECK(findings_of({share_of(2), share_of(0), share_of(1)}).empty());
}

TEST_CASE("a missing rank is named") {
    const auto findings = findings_of({share_of(0), share_of(2)});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "RANKS_INCOMPLETE");
    CHECK(findings[0].severity == Severity::error);
    CHECK(findings[0].message == "1 of 3 ranks are missing: 1");
    CHECK(findings_of({share_of(1)})[0].message == "2 of 3 ranks are missing: 0, 2");
}

TEST_CASE("a rank that is given twice is not summed twice") {
    const auto findings = findings_of({share_of(0), share_of(1), share_of(1), share_of(2)});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "RANK_TWICE");
    CHECK(findings[0].where == "Y.rank1.pt and Y.rank1.pt");
}

TEST_CASE("a rank of another window is foreign, whatever differs") {
    const auto with = [](const std::function<void(WindowFacts&)>& change) {
        WindowFacts other = share_of(1);
        change(other);
        return findings_of({share_of(0), other, share_of(2)});
    };
    CHECK(with([](WindowFacts&) {}).empty());
    for (const auto& change :
         std::vector<std::function<void(WindowFacts&)>>{[](WindowFacts& facts) { facts.name = "v"; },
                                                        [](WindowFacts& facts) {
                                                            facts.members = {0, 1};
                                                        },
                                                        [](WindowFacts& facts) {
                                                            facts.sequence = {4, 6};
                                                        },
                                                        [](WindowFacts& facts) { facts.layouts = {"other"}; }}) {
        const auto findings = with(change);
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].code == "FOREIGN_RANK");
    }
    const auto beyond = findings_of({share_of(0), share_of(1), share_of(2), share_of(7)});
    REQUIRE(beyond.size() == 1);
    CHECK(beyond[0].code == "FOREIGN_RANK");
    CHECK(beyond[0].where == "Y.rank7.pt");
}

TEST_CASE("where the members are not known, --ranks says how many there are") {
    WindowFacts first = share_of(0), second = share_of(1);
    first.members = second.members = {};
    CHECK(findings_of({first, second})[0].code == "RANKS_INCOMPLETE");
    CHECK(findings_of({first, second}, 2).empty());
    CHECK(findings_of({first, second}, 3)[0].message == "1 of 3 ranks are missing: 2");
}

TEST_CASE("files that do not name their ranks are counted") {
    const auto unnamed = findings_of({std::nullopt, std::nullopt});
    REQUIRE(unnamed.size() == 1);
    CHECK(unnamed[0].code == "RANKS_NOT_STATED");
    CHECK(unnamed[0].severity == Severity::info);
    CHECK(findings_of({std::nullopt, std::nullopt}, 2).size() == 1);
    CHECK(findings_of({std::nullopt, std::nullopt}, 3)[1].code == "RANKS_INCOMPLETE");
}

TEST_CASE("counts that are summed already are no rank set") {
    CountReport reduced;
    reduced.reduction = Reduction::reduced;
    std::vector<Finding> findings;
    check::check_rank_set(std::vector{reduced}, {}, findings);
    CHECK(findings.empty());
}
