#include <catch2/catch.hpp>

#include "check/layer_agreement.hpp"
#include "core/error.hpp"
#include "samples.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

Finding mismatch(const Sample& sample, const CountOptions& options = {}, Reduction by_format = Reduction::reduced) {
    return find(check_sample(sample, options, by_format).findings, "LAYER_TOTAL_MISMATCH");
}

// [rows.size(), rows[0].size(), 2]: layer totals as given, dealt to two experts so that no value divides all others.
Sample with_totals(const std::vector<std::vector<std::int64_t>>& rows) {
    Sample sample(static_cast<int>(rows.size()), static_cast<int>(rows[0].size()), 2);
    for (int s = 0; s < sample.slots; ++s) {
        for (int l = 0; l < sample.layers; ++l) {
            const std::int64_t total = rows[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
            sample.at(s, l, 0) = total / 3;
            sample.at(s, l, 1) = total - total / 3;
        }
    }
    return sample;
}

}  // namespace

TEST_CASE("layer totals of the window: equal is silent, up to 1e-3 a warning, above an error") {
    const auto finding = [](std::int64_t total) { return mismatch(with_totals({{2000, total}})); };
    CHECK(finding(2000).code.empty());
    CHECK(finding(1998).severity == Severity::warning);  // 1e-3 of the larger
    CHECK(finding(1997).severity == Severity::error);
    CHECK(finding(1997).where == "layers 1 and 0");
    CHECK(
        finding(1997).message ==
        "layer 1 counts 1997 and layer 0 counts 2000 in the window (spread 0.0015, above 0.001); 1 of 1 record slots, "
        "with 100 % of the counts, have layers that differ by more than 0.001");
    CHECK_THAT(finding(1997).hint, Contains("--accept LAYER_TOTAL_MISMATCH"));
}

TEST_CASE("record slots whose layers differ may hold a twentieth of the counts, however much they differ") {
    // A busy pass, and an idle one in which two layers miss counts in turns: each misses as much as the other.
    const auto finding = [](std::int64_t idle, std::int64_t missing) {
        return mismatch(with_totals({{95000, 95000, 95000},
                                     {idle - missing, idle, idle},
                                     {idle, idle - missing, idle},
                                     {idle, idle, idle - missing}}));
    };
    // Three idle passes with 3 * idle - missing counts each.
    CHECK(finding(1667, 3).severity == Severity::warning);  // 14994 of 299994 counts: 4.998 %
    CHECK(finding(1668, 3).severity == Severity::error);    // 15003 of 300003: 5.0009 %
    CHECK(finding(1668, 1).severity == Severity::warning);  // 1 of 1668 is within a thousandth: no slot differs
    CHECK(finding(1668, 3).where == "record slot 1, layers 0 and 1");
    CHECK(
        finding(1668, 3).message ==
        "layer 0 counts 1665 and layer 1 counts 1668 in this record slot (spread 0.0018); 3 of 4 record slots, with 5 "
        "% of the counts, have layers that differ by more than 0.001, where 5 % is much");
    CHECK(finding(90, 60).severity == Severity::warning);  // tiny passes that are two thirds off
}

TEST_CASE("different record slots may have different totals") {
    CHECK(mismatch(with_totals({{3, 3}, {300, 300}})).code.empty());
}

TEST_CASE("layers and record slots without counts take no part") {
    CHECK(mismatch(with_totals({{0, 10, 10}, {0, 0, 0}, {0, 7, 7}})).code.empty());
}

TEST_CASE("one row that deviates is named with the flag that leaves it out") {
    std::vector<std::vector<std::int64_t>> rows;
    for (int s = 0; s < 8; ++s) rows.push_back({100 + 7 * s, 100 + 7 * s, s % 2 == 0 ? 0 : 100 + 7 * s});
    CHECK_THAT(mismatch(with_totals(rows)).hint,
               Contains("only layer 2 deviates: it is zero in 4 of the 8 record slots") &&
                   Contains("--drop-layers 2 leaves it out"));
    for (auto& row : rows) row[2] = row[0] / 2;
    CHECK_THAT(mismatch(with_totals(rows)).hint, Contains("only layer 2 deviates, the others agree"));
    for (auto& row : rows) row[1] += 5;  // two rows deviate
    CHECK_THAT(mismatch(with_totals(rows)).hint, !Contains("only layer"));
}

TEST_CASE("a constant ratio between layers speaks for what makes one") {
    const auto hint = [](std::int64_t p, std::int64_t q) {
        std::vector<std::vector<std::int64_t>> rows;
        for (int s = 0; s < 8; ++s) {
            const std::int64_t total = (1000 + 137 * s) * q;
            rows.push_back({total, total * p / q, total, total, total * p / q});
        }
        return mismatch(with_totals(rows)).hint;
    };
    CHECK_THAT(hint(4, 1), Contains("layers 1, 4 count 4 times the others in every record slot"));
    CHECK_THAT(hint(9, 8), Contains("layers 1, 4 count 9/8 of the others") && Contains("beside top-8"));
    CHECK_THAT(hint(8, 9), Contains("layers 1, 4 count 8/9 of the others") && Contains("beside top-8"));
    CHECK_THAT(hint(7, 5), Contains("each layer keeps its own share") && Contains("LongCat"));
    // Totals that come and go have no ratio.
    std::vector<std::vector<std::int64_t>> rows;
    for (int s = 0; s < 8; ++s) rows.push_back({1000, 1000 + 400 * (s % 3), 1000 + 500 * (s % 2), 1301});
    CHECK_THAT(mismatch(with_totals(rows)).hint, !Contains("share of the tokens"));
}

TEST_CASE("what one rank received is called so, unless few counts explain the empty columns") {
    const auto hint = [](std::int64_t each, int extra) {
        Sample sample(8, 3, 16);
        for (int s = 0; s < 8; ++s) {
            for (int l = 0; l < 3; ++l) {
                for (const int e : {1, 4, 7, 15}) sample.at(s, l, (e + l) % 16) = each + (s * 5 + l * 3 + e) % 7;
            }
        }
        sample.at(0, 1, 10) = extra;
        return mismatch(sample, {}, Reduction::unknown).hint;
    };
    const std::string cause = "in every layer exactly 4 of 16 experts have counts: these are what one rank received";
    CHECK_THAT(hint(60, 0), Contains(cause) && Contains("--reduction per-rank"));
    CHECK_THAT(hint(60, 1), !Contains(cause));  // five in one layer
    CHECK_THAT(hint(0, 0), !Contains(cause));   // fewer than eight counts an expert
}

TEST_CASE("parts of one window agree once they are summed") {
    const auto hint = [](std::int64_t more) {
        Sample sample(2, 3, 3);
        sample.values = {40 + more, 60,  0,  300, 30,  70, 50,  150, 50,    // 100, 400, 250
                         300,       150, 50, 20,  100, 80, 150, 70,  130};  // 500, 200, 350
        return mismatch(sample).hint;
    };
    CHECK_THAT(hint(0), Contains("summed over the 2 entries of the first axis the layers agree") &&
                            Contains("--recorded-layout") && Contains("--reduction per-rank"));
    CHECK_THAT(hint(1), !Contains("first axis"));  // 601 and 600: 1.7e-3
}

TEST_CASE("axes in another order are recognised by the sums that agree") {
    // counts[t][l][e] of 5 passes, 3 layers, 4 experts, as [layers, passes, experts] and [experts, layers, passes].
    const auto value = [](int t, int l, int e) { return std::int64_t{10 + 3 * t + (e + l + t) % 4}; };
    Sample swapped(3, 5, 4), turned(4, 3, 5);
    for (int t = 0; t < 5; ++t) {
        for (int l = 0; l < 3; ++l) {
            for (int e = 0; e < 4; ++e) swapped.at(l, t, e) = turned.at(e, l, t) = value(t, l, e);
        }
    }
    CHECK(mismatch(swapped).severity == Severity::error);
    CHECK(mismatch(swapped).hint ==
          "the axes stand in another order: the layers agree when they are read as layers,slots,experts: give --axes "
          "layers,slots,experts");
    CHECK_THAT(mismatch(turned).hint, Contains("--axes experts,layers,slots"));
    turned.at(0, 0, 0) += 40;
    CHECK_THAT(mismatch(turned).hint, !Contains("--axes"));
}

TEST_CASE("one record slot [experts, layers] is told with two axes") {
    Sample sample(1, 6, 3);
    for (int e = 0; e < 6; ++e) {
        for (int l = 0; l < 3; ++l) sample.at(0, e, l) = 10 * (e + 1) + (e + 2 * l) % 3 - 1;
    }
    CHECK_THAT(mismatch(sample).hint, Contains("--axes experts,layers"));
}

TEST_CASE("counts in multiples of a block are called approximate") {
    const auto hint = [](std::int64_t block) {
        Sample sample(4, 3, 4);
        for (int s = 0; s < 4; ++s) {
            for (int l = 0; l < 3; ++l) {
                for (int e = 0; e < 4; ++e) sample.at(s, l, e) = block * (2 + (s * 7 + l * 3 + e * e) % 5);
            }
        }
        return mismatch(sample).hint;
    };
    CHECK_THAT(hint(8), Contains("all counts are multiples of 8") && Contains("stat_approx"));
    CHECK_THAT(hint(7), !Contains("multiples"));
}

TEST_CASE("counts with few significant bits have passed through a short float") {
    // 300 to 555 in steps of 2 fit eight bits; an odd one does not.
    const auto hint = [](std::int64_t odd) {
        Sample sample(1, 4, 20);
        for (int l = 0; l < 4; ++l) {
            for (int e = 0; e < 20; ++e) sample.at(0, l, e) = 300 + 2 * ((l * 29 + e * 13) % 100);
        }
        sample.at(0, 0, 0) = 3;  // no common divisor
        sample.at(0, 1, 0) += odd;
        return mismatch(sample).hint;
    };
    CHECK_THAT(hint(0), Contains("at most 8 significant bits: they went through bfloat16"));
    CHECK_THAT(hint(1), !Contains("bfloat16"));
}

TEST_CASE("a mismatch that was accepted is a warning that says so") {
    const Sample sample = with_totals({{1033, 1156}});
    CountOptions options;
    options.accepted = {"LAYER_TOTAL_MISMATCH"};
    const CountReport report = check_sample(sample, options);
    const Finding finding = find(report.findings, "LAYER_TOTAL_MISMATCH");
    CHECK(report.ok());
    CHECK(finding.severity == Severity::warning);
    CHECK(finding.accepted);
    CHECK_THAT(finding.message, Catch::Matchers::StartsWith("accepted (--accept): layer 0 counts 1033"));
    // A warning needs no acceptance and keeps its words.
    CHECK_FALSE(find(check_sample(with_totals({{2000, 1999}}), options).findings, "LAYER_TOTAL_MISMATCH").accepted);
}

TEST_CASE("only judgements can be accepted, and a refusal says why") {
    const auto refusal = [](const std::string& code) -> std::string {
        const std::vector<std::string> codes{"LAYER_TOTAL_MISMATCH", code};
        const std::vector<std::string_view> undecodable{"TRUNCATED"};
        try {
            require_acceptable(codes, undecodable);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::usage);
            return error.what();
        }
        return "";
    };
    CHECK(refusal("NOT_REDUCED").empty());
    CHECK(refusal("NEGATIVE_COUNT") ==
          "--accept: NEGATIVE_COUNT cannot be accepted: values that are no counts cannot be fitted");
    CHECK_THAT(refusal("EMPTY_COUNTS"), Contains("nothing to fit"));
    CHECK_THAT(refusal("EXPERTS_MISMATCH"), Contains("change or drop that flag"));
    CHECK_THAT(refusal("IDENTICAL_FILES"), Contains("twice"));
    CHECK_THAT(refusal("TRUNCATED"), Contains("no counts that could be read"));
    CHECK_THAT(refusal("NO_SIDECAR"), Contains("never an error, at worst an information"));
    CHECK_THAT(refusal("HALVES_DIFFER"), Contains("at worst a warning"));
    CHECK_THAT(refusal("LAYER_TOTALS_MISMATCH"),
               Contains("\"LAYER_TOTALS_MISMATCH\" is no finding code of counts (those that can be accepted are "
                        "LAYER_TOTAL_MISMATCH, NOT_REDUCED, "));
}
