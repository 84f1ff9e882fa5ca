#include <catch2/catch.hpp>

#include "samples.hpp"

using namespace eplb;

TEST_CASE("unfilled record slots are counted, a full ring has no known order") {
    Sample sample = healthy();
    CHECK(find(check_sample(sample).findings, "FULL_RING").severity == Severity::info);
    for (int layer = 0; layer < 3; ++layer) {
        for (int expert = 0; expert < 4; ++expert) sample.at(5, layer, expert) = 0;
    }
    const Finding finding = find(check_sample(sample).findings, "UNFILLED_RECORD_SLOTS");
    CHECK(finding.severity == Severity::info);
    CHECK(finding.message == "31 of 32 record slots hold counts, 1 are zero and are left out");
    CHECK(find(check_sample(sample).findings, "FULL_RING").code.empty());
}

TEST_CASE("a sample is small below 30 record slots and too small for a verdict below 8") {
    const auto message = [](int filled) {
        Sample sample = healthy();
        std::fill(sample.values.begin() + filled * 12, sample.values.end(), 0);
        return find(check_sample(sample).findings, "SMALL_SAMPLE").message;
    };
    CHECK(message(30).empty());
    CHECK(message(29) == "29 record slots with counts: differences between layouts are partly noise");
    CHECK(message(8) == "8 record slots with counts: differences between layouts are partly noise");
    CHECK(message(7) == "7 record slots with counts: below 8 no verdict on a layout is given");
    CHECK(message(1) == "1 record slot with counts: nothing can be held out to judge a layout on");
}

TEST_CASE("a record slot that repeats another is named with its original") {
    Sample sample = healthy();
    std::copy_n(sample.values.begin() + 2 * 12, 12, sample.values.begin() + 9 * 12);
    const Finding finding = find(check_sample(sample).findings, "DUPLICATE_RECORD_SLOTS");
    CHECK(finding.severity == Severity::warning);
    CHECK(finding.message == "1 record slot repeats an earlier one, the first is 9 = 2");
    sample.at(9, 2, 0) += 1;
    CHECK(find(check_sample(sample).findings, "DUPLICATE_RECORD_SLOTS").code.empty());
}

TEST_CASE("leading layers without counts are named but not called dense") {
    Sample sample(1, 5, 4);
    for (const int layer : {2, 4}) {
        for (int expert = 0; expert < 4; ++expert) sample.at(0, layer, expert) = 10 + expert;
    }
    const auto findings = check_sample(sample).findings;
    CHECK(find(findings, "LEADING_ZERO_LAYERS").severity == Severity::info);
    CHECK(find(findings, "LEADING_ZERO_LAYERS").where == "layers 0-1");
    CHECK(find(findings, "ZERO_LAYERS").severity == Severity::warning);
    CHECK(find(findings, "ZERO_LAYERS").where == "layers 3");

    CountOptions options;
    options.dense_layers = IndexList::below(1);
    CHECK(find(check_sample(sample, options).findings, "LEADING_ZERO_LAYERS").where == "layers 0");
    CHECK(find(check_sample(sample, options).findings, "ZERO_LAYERS").where == "layers 1, 3");
    CHECK(find(check_sample(sample, options).findings, "ZERO_LAYERS").message ==
          "2 layers of 5 without any count, and nothing says why");
    options.dense_layers = IndexList::below(2);
    CHECK(find(check_sample(sample, options).findings, "DENSE_LAYER_COUNTS").code.empty());
    options.dense_layers = IndexList::below(3);
    CHECK(find(check_sample(sample, options).findings, "DENSE_LAYER_COUNTS").severity == Severity::error);
    CHECK(find(check_sample(sample, options).findings, "DENSE_LAYER_COUNTS").where == "layers 2");
}

TEST_CASE("one layer with a whole multiple of the other totals hints at draft passes") {
    const auto suspected = [](std::int64_t last) {
        Sample sample(1, 3, 2);
        sample.values = {60, 40, 50, 50, last - 10, 10};
        return find(check_sample(sample).findings, "DRAFT_PASSES_SUSPECTED");
    };
    CHECK(suspected(400).severity == Severity::warning);
    CHECK(suspected(400).where == "layer 2");
    CHECK(suspected(400).message == "its total 400 is 4 times that of every other layer");
    CHECK(suspected(350).code.empty());
    CHECK(suspected(100).code.empty());
}

TEST_CASE("row totals must divide by top-k") {
    CountOptions options;
    options.top_k = 2;
    CHECK(find(check_sample(healthy(), options).findings, "NOT_DIVISIBLE_BY_TOP_K").code.empty());
    Sample sample = healthy();
    sample.at(4, 1, 3) += 1;
    const Finding finding = find(check_sample(sample, options).findings, "NOT_DIVISIBLE_BY_TOP_K");
    CHECK(finding.severity == Severity::warning);
    CHECK(finding.where == "record slot 4, layer 1");
}

TEST_CASE("an expert cannot be hit more often than there are tokens") {
    Sample sample(1, 1, 4);
    CountOptions options;
    options.top_k = 2;
    sample.values = {10, 6, 2, 2};  // 20 assignments, 10 tokens
    CHECK(find(check_sample(sample, options).findings, "EXPERT_ABOVE_TOKENS").code.empty());
    sample.values = {5, 11, 2, 2};
    const Finding finding = find(check_sample(sample, options).findings, "EXPERT_ABOVE_TOKENS");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.where == "record slot 0, layer 0, expert 1");
    CHECK(finding.message == "count 11 is above the 10 tokens of its row (total 20 / top-k 2); 1 row of this kind");
    CHECK(find(check_sample(sample).findings, "EXPERT_ABOVE_TOKENS").code.empty());  // top-k not known
}

TEST_CASE("counts of one rank's block of experts only are not reduced") {
    Sample sample(1, 2, 16);
    for (int layer = 0; layer < 2; ++layer) {
        for (int expert = 4; expert < 8; ++expert) sample.at(0, layer, expert) = 5;
    }
    CHECK(find(check_sample(sample).findings, "NOT_REDUCED").severity == Severity::error);
    CHECK(find(check_sample(sample).findings, "NOT_REDUCED").where == "experts 4-7");
    CountOptions options;
    options.recorded_ranks = 4;
    CHECK(find(check_sample(sample, options).findings, "NOT_REDUCED").severity == Severity::error);
    options.recorded_ranks = 2;
    CHECK(find(check_sample(sample, options).findings, "NOT_REDUCED").code.empty());
    options.recorded_ranks = 4;
    options.reduction = Reduction::reduced;  // the user insists
    CHECK(find(check_sample(sample, options, Reduction::unknown).findings, "NOT_REDUCED").severity ==
          Severity::warning);
    sample.at(0, 1, 8) = 1;
    CHECK(find(check_sample(sample).findings, "NOT_REDUCED").code.empty());
}

TEST_CASE("one giant expert is a skewed router, not a missing reduction") {
    Sample sample(1, 2, 4);
    sample.at(0, 0, 2) = sample.at(0, 1, 2) = 100;
    CountOptions options;
    options.recorded_ranks = 4;
    CHECK(check_sample(sample, options).ok());
}

TEST_CASE("experts that are never hit are counted, in layers with counts only") {
    Sample sample = healthy();
    CHECK(find(check_sample(sample).findings, "NEVER_HIT_EXPERTS").code.empty());
    Sample with_zero_layer(1, 3, 4);
    for (const int layer : {1, 2}) {
        with_zero_layer.at(0, layer, 0) = 7;
        with_zero_layer.at(0, layer, 3) = 1;
    }
    with_zero_layer.at(0, 2, 1) = 4;
    with_zero_layer.at(0, 1, 0) += 4;
    const Finding finding = find(check_sample(with_zero_layer).findings, "NEVER_HIT_EXPERTS");
    CHECK(finding.severity == Severity::info);
    CHECK(finding.where == "layer 1, experts 1-2");
    CHECK(finding.message == "3 experts in 2 layers never hit; most in layer 1: 2");
}

TEST_CASE("a total that is a multiple of the expected one points at double counting") {
    CountOptions options;
    options.expect_total = 3 * 2 * 71 * 16;
    CHECK(find(check_sample(healthy(), options).findings, "UNEXPECTED_TOTAL").code.empty());
    options.expect_total = 2 * 71 * 16;
    CHECK(find(check_sample(healthy(), options).findings, "UNEXPECTED_TOTAL").severity == Severity::warning);
    CHECK(find(check_sample(healthy(), options).findings, "UNEXPECTED_TOTAL").hint.find("3 times") == 0);
    options.expect_total = 6 * 2 * 71 * 16;
    CHECK(find(check_sample(healthy(), options).findings, "UNEXPECTED_TOTAL").hint.find("1/2 of") == 0);
}

TEST_CASE("the same large count in every record slot is suspect padding") {
    Sample sample(8, 2, 16);
    for (int s = 0; s < 8; ++s) {
        for (int l = 0; l < 2; ++l) {
            for (int e = 0; e < 16; ++e) sample.at(s, l, e) = 100 + (s * 5 + e * 3 + l) % 16;
            sample.at(s, l, 5) = 4096;
        }
    }
    const Finding finding = find(check_sample(sample).findings, "SUSPECT_PADDING");
    CHECK(finding.severity == Severity::warning);
    CHECK(finding.where == "layer 0, experts 5");
    // Traffic of the same size scatters by about sqrt(4096) = 64.
    for (int s = 0; s < 8; ++s) sample.at(s, 0, 5) = sample.at(s, 1, 5) = 4096 + 33 * (s % 2);
    CHECK(find(check_sample(sample).findings, "SUSPECT_PADDING").code.empty());
}

TEST_CASE("an expert that every token hits in every layer is a shared expert") {
    // Three tokens a unit: routed top-2 over experts 0..3, and column 4 hit by every token.
    Sample sample(4, 2, 5);
    for (int s = 0; s < 4; ++s) {
        for (int l = 0; l < 2; ++l) {
            const int tokens = 10 + s;
            sample.at(s, l, 0) = tokens - 2;
            sample.at(s, l, 1) = tokens - 5;
            sample.at(s, l, 2) = 3 + l;
            sample.at(s, l, 3) = 4 - l;
            sample.at(s, l, 4) = tokens;
        }
    }
    const Finding finding = find(check_sample(sample).findings, "SHARED_EXPERT_SUSPECTED");
    CHECK(finding.severity == Severity::warning);
    CHECK(finding.where == "expert 4");
    CHECK(finding.message == "every token hits it in every layer: its count is 1/3 of each row's total");
    sample.at(3, 1, 4) -= 1;
    sample.at(3, 1, 0) += 1;
    CHECK(find(check_sample(sample).findings, "SHARED_EXPERT_SUSPECTED").code.empty());
}

TEST_CASE("halves of different loads differ, a load that alternates does not, nor does a small change") {
    // Expert 0 has `share` percent of the traffic in record slots of the first kind and 50 percent in the others.
    const auto finding_with = [](int share, bool alternating) {
        Sample sample(8, 1, 2);
        for (int s = 0; s < 8; ++s) {
            const int percent = (alternating ? s % 2 == 0 : s < 4) ? share : 50;
            sample.at(s, 0, 0) = percent * (s + 1);
            sample.at(s, 0, 1) = (100 - percent) * (s + 1);
        }
        return find(check_sample(sample).findings, "HALVES_DIFFER");
    };
    CHECK(finding_with(61, false).severity == Severity::warning);  // total variation 0.11
    CHECK(finding_with(59, false).code.empty());
    CHECK(finding_with(61, true).code.empty());
}

TEST_CASE("top-k is guessed from many different totals only") {
    CHECK(check_sample(healthy()).top_k_guess == 2);
    Sample few(2, 1, 4);
    few.values = {6, 4, 1, 1, 5, 5, 3, 3};
    CHECK_FALSE(check_sample(few).top_k_guess);
    Sample rounded = healthy();
    rounded.at(0, 0, 0) += 1;
    CHECK_FALSE(check_sample(rounded).top_k_guess);
    Sample top_4 = healthy();  // totals are multiples of 4, but an expert with half of them rules out more than top-2
    for (std::int64_t& value : top_4.values) value *= 2;
    for (int layer = 0; layer < 3; ++layer) {
        top_4.at(0, layer, 0) = 40;
        top_4.at(0, layer, 1) = 38;
        top_4.at(0, layer, 3) = 0;
    }
    CHECK_FALSE(check_sample(top_4).top_k_guess);
}

TEST_CASE("several files: one geometry, no content twice, a stated reduction") {
    const auto report_of = [](const Sample& sample, const std::string& path, Reduction by_format) {
        return check_counts(path, sample.tensor(), by_format, {});
    };
    Sample other = healthy();
    other.at(0, 0, 0) += 1;
    const CountReport a = report_of(healthy(), "a.pt", Reduction::reduced);
    const CountReport b = report_of(other, "b.pt", Reduction::reduced);
    CHECK(check_counts_together(std::vector{a, b}, {}).empty());
    CHECK(check_counts_together(std::vector{a}, {}).empty());

    Sample seven = healthy();
    seven.slots = 7;
    seven.values.resize(7 * 12);
    Sample one = healthy();
    one.slots = 1;
    one.values.resize(12);
    const auto small_sample = [&] {
        return find(check_counts_together(
                        std::vector{report_of(seven, "a", Reduction::reduced), report_of(one, "b", Reduction::reduced)},
                        {}),
                    "SMALL_SAMPLE")
            .message;
    };
    CHECK(small_sample() ==
          "8 record slots with counts, 7 distinct: below 8 no verdict on a layout is given");  // b repeats a's first
    one.at(0, 0, 0) += 1;
    CHECK(small_sample() == "8 record slots with counts: differences between layouts are partly noise");

    const auto twice = check_counts_together(std::vector{a, b, report_of(healthy(), "c.pt", Reduction::reduced)}, {});
    REQUIRE(twice.size() == 1);
    CHECK(twice[0].code == "IDENTICAL_FILES");
    CHECK(twice[0].where == "a.pt and c.pt");
    CHECK(twice[0].severity == Severity::error);

    const auto geometry =
        check_counts_together(std::vector{a, report_of(Sample(1, 2, 4), "d.pt", Reduction::reduced)}, {});
    CHECK(find(geometry, "FILES_DISAGREE").severity == Severity::error);

    const auto unknown = check_counts_together(std::vector{a, report_of(other, "e.npy", Reduction::unknown)}, {});
    CHECK(find(unknown, "REDUCTION_NOT_STATED").severity == Severity::error);

    CountOptions options;
    options.expect_total = a.statistics->total + b.statistics->total;
    CHECK(check_counts_together(std::vector{a, b}, options).empty());
    options.expect_total = a.statistics->total;
    CHECK(find(check_counts_together(std::vector{a, b}, options), "UNEXPECTED_TOTAL").severity == Severity::warning);
}

TEST_CASE("the order of a recorded window is told, and no scenario is missed") {
    WindowFacts facts;
    for (int pass = 0; pass < 32; ++pass) facts.sequence.push_back(100 + pass);
    facts.overwritten = 100;
    const CountReport known = check_counts("Y.pt", healthy().tensor(), Reduction::reduced, {}, facts);
    const Finding order = find(known.findings, "WINDOW_ORDER_KNOWN");
    CHECK(order.severity == Severity::info);
    CHECK(order.message == "32 passes, 100 to 131, oldest first; 100 earlier ones were overwritten");
    CHECK(find(known.findings, "FULL_RING").code.empty());
    CHECK(find(known.findings, "NO_SIDECAR").code.empty());
}
