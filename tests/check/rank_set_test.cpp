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

std::vector<Finding> findings_of(const std::vector<std::optional<WindowFacts>>& shares,
                                 std::optional<int> recorded_ranks = {}) {
    std::vector<CountReport> reports;
    for (const auto& share : shares) reports.push_back(report(share));
    CountOptions options;
    options.recorded_ranks = recorded_ranks;
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

namespace {

// A share of a window whose members nobody stated.
WindowFacts tagged(int rank) {
    WindowFacts facts = share_of(rank);
    facts.members = {};
    return facts;
}

}  // namespace

TEST_CASE("ranks numbered from 0 without a gap are all there are, unless --recorded-ranks says more") {
    const auto all = findings_of({tagged(1), tagged(0)});
    REQUIRE(all.size() == 1);
    CHECK(all[0].code == "RANKS_NOT_STATED");
    CHECK(all[0].severity == Severity::info);
    CHECK(findings_of({tagged(0), tagged(1)}, 2).empty());
    const auto one_missing = findings_of({tagged(0), tagged(1)}, 3);
    REQUIRE(one_missing.size() == 1);
    CHECK(one_missing[0].message == "1 of 3 ranks are missing: 2");
    CHECK(findings_of({tagged(0), tagged(1), tagged(2)}, 2)[0].code == "FOREIGN_RANK");
}

TEST_CASE("ranks with a gap, or one alone, do not tell how many there are; the tags and the flag are named") {
    for (const auto& shares : std::vector<std::vector<std::optional<WindowFacts>>>{
             {tagged(0), tagged(2)}, {tagged(1), tagged(2)}, {tagged(0)}}) {
        const auto findings = findings_of(shares);
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].code == "RANKS_INCOMPLETE");
        CHECK(findings[0].severity == Severity::error);
        CHECK_THAT(findings[0].hint, Catch::Contains("--recorded-ranks"));
    }
    CHECK_THAT(findings_of({tagged(0), tagged(2)})[0].message, Catch::Contains("ranks 0, 2"));
    CHECK(findings_of({tagged(0)}, 1).empty());
    CHECK(findings_of({tagged(0), tagged(2)}, 3)[0].message == "1 of 3 ranks are missing: 1");
}

TEST_CASE("a number of recorded ranks that contradicts the sidecars is an error") {
    const auto findings = findings_of({share_of(0), share_of(1), share_of(2)}, 4);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "RANKS_INCOMPLETE");
    CHECK(findings[0].message == "the sidecars name 3 ranks, --recorded-ranks says 4");
    CHECK(findings_of({share_of(0), share_of(1), share_of(2)}, 3).empty());
}

TEST_CASE("files that do not name their ranks are counted") {
    const auto unnamed = findings_of({std::nullopt, std::nullopt});
    REQUIRE(unnamed.size() == 1);
    CHECK(unnamed[0].code == "RANKS_NOT_STATED");
    CHECK(unnamed[0].severity == Severity::info);
    CHECK(findings_of({std::nullopt, std::nullopt}, 2).empty());
    CHECK(findings_of({std::nullopt, std::nullopt}, 3)[0].code == "RANKS_INCOMPLETE");
    CHECK(findings_of({std::nullopt, std::nullopt}, 1)[0].message == "2 files for 1 ranks (--recorded-ranks)");
}

TEST_CASE("a rank that counted nothing is a warning") {
    std::vector<CountReport> reports{report(share_of(0)), report(share_of(1)), report(share_of(2))};
    for (CountReport& one : reports) one.statistics.emplace().total = 1;
    std::vector<Finding> findings;
    check::check_rank_set(reports, {}, findings);
    CHECK(findings.empty());
    reports[1].statistics->total = 0;
    check::check_rank_set(reports, {}, findings);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].code == "EMPTY_RANK");
    CHECK(findings[0].severity == Severity::warning);
    CHECK(findings[0].message == "rank 1 counted nothing");
}

TEST_CASE("counts that are summed already are no rank set") {
    CountReport reduced;
    reduced.reduction = Reduction::reduced;
    std::vector<Finding> findings;
    check::check_rank_set(std::vector{reduced}, {}, findings);
    CHECK(findings.empty());
}
