// Arrays that are no counts, or other counts than they seem.
#include <catch2/catch.hpp>

#include "core/tensor_view.hpp"
#include "samples.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

Finding found(const Sample& sample, const std::string& code, const CountOptions& options = {}) {
    return find(check_sample(sample, options).findings, code);
}

}  // namespace

TEST_CASE("ones in the same columns of at least four layers are a placement") {
    const auto finding = [](int layers, bool other) {
        Sample sample(4, layers, 16);
        for (int rank = 0; rank < 4; ++rank) {
            for (int l = 0; l < layers; ++l) {
                for (int local = 0; local < 3; ++local) sample.at(rank, l, 3 * rank + local) = 1;
            }
        }
        if (other) std::swap(sample.at(0, 1, 0), sample.at(0, 1, 15));
        return found(sample, "PLACEMENT_MASK");
    };
    CHECK(finding(4, false).severity == Severity::error);
    CHECK_THAT(finding(4, false).message, Contains("same columns in every layer"));
    CHECK(finding(3, false).code.empty());
    CHECK(finding(4, true).code.empty());
}

TEST_CASE("ones that hit every expert, though too few for chance, are a placement") {
    // [2 ranks, 4 layers, 16 experts], 8 experts a rank, shifted by layer: 64 cells, 64 ones.
    Sample sample(2, 4, 16);
    for (int rank = 0; rank < 2; ++rank) {
        for (int l = 0; l < 4; ++l) {
            for (int local = 0; local < 8; ++local) sample.at(rank, l, (8 * rank + local + l) % 16) = 1;
        }
    }
    CHECK_THAT(found(sample, "PLACEMENT_MASK").message, Contains("hit every expert of every layer"));
    sample.at(1, 3, 12) = 0;  // one that nobody holds
    CHECK(found(sample, "PLACEMENT_MASK").code.empty());
    sample.at(1, 3, 12) = 2;  // a value above 1
    CHECK(found(sample, "PLACEMENT_MASK").code.empty());
}

TEST_CASE("many passes of one token hit every expert and are counts") {
    // 64 passes of a top-2 token over 16 experts, 4 layers: 8 hits an expert, all hit.
    Sample sample(64, 4, 16);
    for (int s = 0; s < 64; ++s) {
        for (int l = 0; l < 4; ++l) {
            sample.at(s, l, (s + l) % 16) = 1;
            sample.at(s, l, (3 * s + 5 + l) % 16 == (s + l) % 16 ? (s + l + 1) % 16 : (3 * s + 5 + l) % 16) = 1;
        }
    }
    CHECK(found(sample, "PLACEMENT_MASK").code.empty());
    CHECK(check_sample(sample).ok());
}

TEST_CASE("rows of more ones than a token has experts are a placement, once tokens would have met") {
    // One rank of two holds 40 of 80 experts, other ones in each layer: 400 / 80 = 5 meetings a row.
    const auto finding = [](int layers, int ones) {
        Sample sample(1, layers, 80);
        for (int l = 0; l < layers; ++l) {
            for (int local = 0; local < ones; ++local) sample.at(0, l, (local + 7 * l) % 80) = 1;
        }
        return found(sample, "PLACEMENT_MASK");
    };
    CHECK_THAT(finding(4, 40).message, Contains("more of them than a token has experts"));
    CHECK(finding(3, 40).code.empty());    // 15 meetings
    CHECK(finding(100, 32).code.empty());  // a token may have 32 experts
}

TEST_CASE("an accepted placement is looked at further") {
    Sample sample(2, 4, 16);
    for (int l = 0; l < 4; ++l) sample.at(0, l, 3) = sample.at(1, l, 5) = 1;
    CountOptions options;
    CHECK(found(sample, "NEVER_HIT_EXPERTS", options).code.empty());
    options.accepted = {"PLACEMENT_MASK"};
    CHECK(check_sample(sample, options).ok());
    CHECK(found(sample, "PLACEMENT_MASK", options).accepted);
    CHECK(found(sample, "NEVER_HIT_EXPERTS", options).severity == Severity::info);
}

TEST_CASE("rows of small values that all differ are ids of routed experts") {
    // [tokens, 4 layers, top-4] of 32 experts: 64 tokens x 4 rows x 6 pairs / 32 = 48 meetings expected.
    const auto sample_of = [](int tokens) {
        Sample sample(tokens, 4, 4);
        for (int t = 0; t < tokens; ++t) {
            for (int l = 0; l < 4; ++l) {
                for (int k = 0; k < 4; ++k) sample.at(t, l, k) = (5 * t + 3 * l + (7 + t % 3) * k) % 32;
            }
        }
        return sample;
    };
    Sample ids = sample_of(64);
    CHECK(found(ids, "ROUTED_IDS").severity == Severity::error);
    CHECK_THAT(found(ids, "ROUTED_IDS").hint, Contains("--format routed-ids"));
    CHECK(found(sample_of(20), "ROUTED_IDS").code.empty());  // 15 expected: few enough to miss one another
    ids.at(9, 2, 1) = ids.at(9, 2, 0);
    CHECK(found(ids, "ROUTED_IDS").code.empty());
}

TEST_CASE("counts of few experts whose layers agree are no ids") {
    Sample sample(64, 4, 4);
    for (int s = 0; s < 64; ++s) {
        for (int l = 0; l < 4; ++l) {
            for (int e = 0; e < 4; ++e)
                sample.at(s, l, (e + l) % 4) = 3 * e + (e == 0 ? s % 2 : e == 3 ? 3 - s % 2 : 1);
        }
    }
    CHECK(found(sample, "LAYER_TOTAL_MISMATCH").code.empty());
    CHECK(found(sample, "ROUTED_IDS").code.empty());
}

TEST_CASE("counts above the exact range of their float type are rounded") {
    const auto report = [](float value) {
        const std::vector<float> values{value, 5};
        Tensor tensor;
        tensor.dtype = DType::float32;
        tensor.shape = {1, 1, 2};
        tensor.strides = {2, 2, 1};
        tensor.data = reinterpret_cast<const std::byte*>(values.data());
        return check_counts("counts.pt", tensor, Reduction::reduced, {}).findings;
    };
    CHECK(find(report(16777216), "ROUNDED_COUNTS").code.empty());  // 2^24
    CHECK(find(report(16777216), "FLOAT_COUNTS").message == "whole numbers stored as float32; read exactly");
    CHECK(find(report(16777218), "ROUNDED_COUNTS").severity == Severity::warning);
    CHECK(find(report(16777218), "ROUNDED_COUNTS").message ==
          "counts up to 16777218 are stored as float32, which holds every whole number only up to 16777216; near "
          "16777218 they are rounded to steps of 2");
    CHECK(find(report(16777218), "FLOAT_COUNTS").message == "whole numbers stored as float32");
}

TEST_CASE("the exact ranges of the short float types") {
    const auto rounded = [](DType dtype, std::uint16_t bits) {
        const std::vector<std::uint16_t> values{bits};
        Tensor tensor;
        tensor.dtype = dtype;
        tensor.shape = tensor.strides = {1, 1, 1};
        tensor.data = reinterpret_cast<const std::byte*>(values.data());
        return !find(check_counts("c", tensor, Reduction::reduced, {}).findings, "ROUNDED_COUNTS").code.empty();
    };
    CHECK_FALSE(rounded(DType::bfloat16, 0x4380));  // 256
    CHECK(rounded(DType::bfloat16, 0x4381));        // 258
    CHECK_FALSE(rounded(DType::float16, 0x6800));   // 2048
    CHECK(rounded(DType::float16, 0x6801));         // 2050
}

TEST_CASE("integers that a short float has rounded before are noticed") {
    // 40 even values from 258 on, as bfloat16 leaves them, and small odd ones.
    const auto finding = [](int above, std::int64_t step) {
        Sample sample(1, 2, 64);
        for (int l = 0; l < 2; ++l) {
            for (int e = 0; e < 64; ++e)
                sample.at(0, l, e) = e < above / 2 ? 258 + step * ((e + 3 * l) % 32) : 2 * e + 1;
        }
        return found(sample, "ROUNDED_COUNTS");
    };
    CHECK_THAT(finding(32, 2).message,
               Contains("no count has more than 8 significant bits: they passed through bfloat16"));
    CHECK(finding(30, 2).code.empty());  // too few to say so
    CHECK(finding(32, 1).code.empty());  // 259 needs nine bits
}

TEST_CASE("multiples of a block are no rounding") {
    Sample sample(1, 2, 64);
    for (int l = 0; l < 2; ++l) {
        for (int e = 0; e < 64; ++e) sample.at(0, l, e) = 128 * (1 + (e + 3 * l) % 64);
    }
    CHECK(found(sample, "ROUNDED_COUNTS").code.empty());
}

namespace {

// [slots, layers, 12]: eight routed columns, top-3, and four columns that share the tokens of a shared expert.
Sample with_shared_columns(int slots, int layers, bool same_in_layers) {
    Sample sample(slots, layers, 12);
    for (int s = 0; s < slots; ++s) {
        for (int l = 0; l < layers; ++l) {
            const int tokens = 40 + 3 * s;
            for (int t = 0; t < 3 * tokens; ++t) ++sample.at(s, l, (t * (t % 5 + 1) + 3 * l + s) % 8);
            for (int t = 0; t < tokens; ++t) ++sample.at(s, l, 8 + (same_in_layers ? t : t * (t % 3 + l)) % 4);
        }
    }
    return sample;
}

}  // namespace

TEST_CASE("a shared expert that is spread over columns is noticed by columns that are alike in all layers") {
    Sample sample = with_shared_columns(5, 3, true);
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").severity == Severity::warning);
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").where == "experts 8-11");
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").message ==
          "every token hits one of these 4 in every layer: together they have 1/4 of each row's total");
    CHECK(found(with_shared_columns(3, 2, true), "SHARED_EXPERT_SUSPECTED").code.empty());  // six rows
    sample.at(2, 1, 8) += 1;
    sample.at(2, 1, 0) -= 1;
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").code.empty());
}

TEST_CASE("and by last columns that are a fixed part of every row") {
    Sample sample = with_shared_columns(5, 3, false);
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").where == "experts 8-11");
    sample.at(2, 1, 8) += 1;
    sample.at(2, 1, 0) -= 1;
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").code.empty());
}

TEST_CASE("experts that are routed in groups share nothing") {
    // Two groups of four, top-1 in each: either half of a row is half of it.
    Sample sample(5, 3, 8);
    for (int s = 0; s < 5; ++s) {
        for (int l = 0; l < 3; ++l) {
            for (int t = 0; t < 40 + 3 * s; ++t) {
                ++sample.at(s, l, t * (t % 3 + l) % 4);
                ++sample.at(s, l, 4 + t * (t % 5 + l + 1) % 4);
            }
        }
    }
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").code.empty());
}

TEST_CASE("counts in fixed proportions share nothing") {
    Sample sample(8, 1, 4);
    for (int s = 0; s < 8; ++s) {
        const std::vector<std::int64_t> parts{7, 5, 2, 2};  // the last two are a quarter
        for (int e = 0; e < 4; ++e) sample.at(s, 0, e) = parts[static_cast<std::size_t>(e)] * (s + 10);
    }
    CHECK(found(sample, "SHARED_EXPERT_SUSPECTED").code.empty());
}

TEST_CASE("a --top-k that divides the true one is contradicted") {
    Sample sample(16, 2, 24);  // top-6: every row total is six times the tokens, no expert above them
    for (int s = 0; s < 16; ++s) {
        for (int l = 0; l < 2; ++l) {
            for (int t = 0; t < 6 * (10 + s); ++t) ++sample.at(s, l, (t + l) % 24);
        }
    }
    const auto finding = [&](int top_k) {
        CountOptions options;
        options.top_k = top_k;
        return found(sample, "TOP_K_CONTRADICTED", options);
    };
    CHECK(finding(6).code.empty());
    CHECK(finding(3).severity == Severity::warning);
    CHECK(finding(3).message ==
          "--top-k 3, but every row total is a multiple of 6 and no expert has more than 1/6 of its row: tokens look "
          "routed to 6 experts");
    CHECK(finding(3).hint == "say --top-k 6; 3 is right only if every token was counted 2 times");
    CHECK(finding(4).code.empty());  // NOT_DIVISIBLE_BY_TOP_K says so
}

TEST_CASE("a ceiling that the hottest experts reach contradicts --top-k where all totals are alike") {
    // 16 tokens to 4 of 8 experts in every row; the hottest has all 16 in `at_ceiling` rows of 12.
    const auto finding = [](int at_ceiling, int above) {
        Sample sample(6, 2, 8);
        for (int row = 0; row < 12; ++row) {
            const bool hot = row < at_ceiling;
            for (int e = 0; e < 8; ++e)
                sample.at(row / 2, row % 2, e) = e == 0 ? (hot ? 16 : 15) : e == 1 ? 14 - hot : 7;
            sample.at(row / 2, row % 2, 2 + row % 6) -= 7 - row / 6;  // no two record slots alike
            sample.at(row / 2, row % 2, 2 + (row + 1) % 6) += 64 - 15 - 14 - 6 * 7 + 7 - row / 6;
        }
        sample.at(0, 0, 0) += above;
        sample.at(0, 0, 1) -= above;
        CountOptions options;
        options.top_k = 2;
        return found(sample, "TOP_K_CONTRADICTED", options);
    };
    CHECK_THAT(finding(8, 0).message, Contains("the hottest experts of many rows have exactly 1/4 of their row"));
    CHECK(finding(8, 0).hint == "say --top-k 4; 2 is right only if every token was counted 2 times");
    CHECK(finding(7, 0).code.empty());
    CHECK(finding(8, 1).code.empty());  // one that has more
}

TEST_CASE("flags that another order of the axes fits name it") {
    CountOptions options;
    options.layers = 32;
    CHECK_THAT(found(healthy(), "LAYERS_MISMATCH", options).hint, Contains("--axes layers,slots,experts"));
    options.layers.reset();
    options.experts = 3;
    CHECK_THAT(found(healthy(), "EXPERTS_MISMATCH", options).hint, Contains("--axes slots,experts,layers"));
    options.experts = 5;
    CHECK_THAT(found(healthy(), "EXPERTS_MISMATCH", options).hint, !Contains("--axes"));
    options.experts = 2;
    CHECK_THAT(found(healthy(), "EXPERTS_MISMATCH", options).hint,
               Contains("physical slots with 2 redundant ones") && Contains("--recorded-layout"));
}
