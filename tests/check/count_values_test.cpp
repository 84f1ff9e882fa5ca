#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/count_check.hpp"
#include "samples.hpp"

using namespace eplb;

namespace {

// A [1, 1, n] tensor of any type.
template <typename T>
Tensor row_of(DType dtype, std::vector<T> values) {
    const auto owner = std::make_shared<std::vector<T>>(std::move(values));
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = {1, 1, static_cast<std::int64_t>(owner->size())};
    tensor.strides = tensor.contiguous_strides();
    tensor.data = reinterpret_cast<const std::byte*>(owner->data());
    tensor.owner = owner;
    return tensor;
}

CountReport check_tensor(const Tensor& tensor, const CountOptions& options = {}) {
    return check_counts("counts.npy", tensor, Reduction::reduced, options);
}

}  // namespace

TEST_CASE("a healthy dump has nothing above info") {
    const CountReport report = check_sample(healthy());
    CHECK(codes_at_least(report.findings, Severity::warning).empty());
    CHECK(codes_at_least(report.findings, Severity::info) == std::vector<std::string>{"FULL_RING", "NO_SIDECAR"});
    REQUIRE(report.statistics);
    // Sum over s of 2 tokens, three layers: 32 slots with tokens 20..51, each once (7 s mod 32 is a permutation).
    CHECK(report.statistics->total == 3 * 2 * (20 + 51) * 16);
    CHECK(report.top_k_guess == 2);
}

TEST_CASE("an int32 count that ran over is shown with the value it would have had") {
    const Finding finding =
        find(check_tensor(row_of<std::int32_t>(DType::int32, {5, -2147483648, -1})).findings, "NEGATIVE_COUNT");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.where == "record slot 0, layer 0, expert 1");
    CHECK(finding.message == "-2147483648 is no count (2 such values)");
    CHECK(finding.hint.find("would have been 2147483648") != std::string::npos);
}

TEST_CASE("a negative int64 count has no unwrapped value to offer") {
    const Finding finding = find(check_tensor(row_of<std::int64_t>(DType::int64, {5, -1})).findings, "NEGATIVE_COUNT");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.hint.find("would have been") == std::string::npos);
}

TEST_CASE("floats are counts exactly when they are whole numbers from 0 to 2^53") {
    const double limit = 9007199254740992.0, nan = std::numeric_limits<double>::quiet_NaN();
    const auto codes = [](std::vector<double> values) {
        return codes_at_least(check_tensor(row_of<double>(DType::float64, std::move(values))).findings,
                              Severity::error);
    };
    CHECK(codes({1.0, limit}).empty());
    CHECK(codes({1.0, limit + 2}) == std::vector<std::string>{"COUNT_TOO_LARGE"});
    CHECK(codes({1.0, 1.5}) == std::vector<std::string>{"FRACTIONAL_COUNT"});
    CHECK(codes({1.0, nan}) == std::vector<std::string>{"NAN_COUNT"});
    CHECK(codes({1.0, HUGE_VAL}) == std::vector<std::string>{"INFINITE_COUNT"});
    CHECK(codes({1.0, -HUGE_VAL}) == std::vector<std::string>{"INFINITE_COUNT"});
    CHECK(codes({1.0, -1.0}) == std::vector<std::string>{"NEGATIVE_COUNT"});
    CHECK(codes({nan, -1.0, 0.5}) == std::vector<std::string>{"NEGATIVE_COUNT", "NAN_COUNT", "FRACTIONAL_COUNT"});
}

TEST_CASE("whole-number floats are accepted and mentioned") {
    const CountReport report = check_tensor(row_of<float>(DType::float32, {3.0f, 0.0f, 7.0f}));
    CHECK(report.ok());
    CHECK(find(report.findings, "FLOAT_COUNTS").severity == Severity::info);
    CHECK(find(report.findings, "FLOAT_COUNTS").message == "whole numbers stored as float32; read exactly");
    CHECK(report.statistics->total == 10);
}

TEST_CASE("booleans are no counts, the same bytes as uint8 are") {
    CHECK(find(check_tensor(row_of<std::uint8_t>(DType::boolean, {1, 0})).findings, "BOOLEAN_COUNTS").severity ==
          Severity::error);
    CHECK(check_tensor(row_of<std::uint8_t>(DType::uint8, {1, 0})).ok());
}

TEST_CASE("an unsigned value above 2^63 - 1 is named in full") {
    const Finding finding = find(
        check_tensor(row_of<std::uint64_t>(DType::uint64, {1, 18446744073709551615u})).findings, "COUNT_TOO_LARGE");
    CHECK(finding.severity == Severity::error);
    CHECK(finding.message == "18446744073709551615 is no count (1 such value)");
    CHECK(check_tensor(row_of<std::uint64_t>(DType::uint64, {1, 9223372036854775806u})).ok());
}

TEST_CASE("counts whose sum leaves 63 bits are refused, a sum of exactly 2^63 - 1 is not") {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK(find(check_tensor(row_of<std::int64_t>(DType::int64, {most, 1})).findings, "SUM_TOO_LARGE").severity ==
          Severity::error);
    CHECK(check_tensor(row_of<std::int64_t>(DType::int64, {most, 0})).ok());
    Sample sample(2, 1, 1);
    sample.values = {most, 1};
    CHECK(find(check_sample(sample).findings, "SUM_TOO_LARGE").severity == Severity::error);
}

TEST_CASE("an all-zero dump and a dump without record slots are the same error") {
    CHECK(find(check_sample(Sample(4, 3, 8)).findings, "EMPTY_COUNTS").message == "all 4 record slots are zero");
    CHECK(find(check_sample(Sample(0, 3, 8)).findings, "EMPTY_COUNTS").message == "no record slot at all");
    Sample one(4, 3, 8);
    one.at(2, 1, 7) = 1;
    CHECK(find(check_sample(one).findings, "EMPTY_COUNTS").code.empty());
}

TEST_CASE("axes outside the limits are refused before anything is summed") {
    CHECK(find(check_sample(Sample(1, 0, 8)).findings, "BAD_SHAPE").severity == Severity::error);
    CHECK(find(check_sample(Sample(1, 8, 0)).findings, "BAD_SHAPE").severity == Severity::error);
    Tensor flat = Sample(1, 1, 8).tensor();
    flat.shape = {8};
    flat.strides = {1};
    CHECK(find(check_tensor(flat).findings, "BAD_SHAPE").severity == Severity::error);
    CHECK(find(check_sample(Sample(1, 4097, 1)).findings, "BAD_SHAPE").severity == Severity::error);
    CHECK(find(check_sample(Sample(1, 4096, 1)).findings, "BAD_SHAPE").code.empty());
}

TEST_CASE("layers and experts are held against the flags") {
    CountOptions options;
    options.layers = 3;
    options.experts = 4;
    CHECK(check_sample(healthy(), options).ok());
    options.layers = 4;
    options.dense_layers = IndexList::below(1);
    const Finding layers = find(check_sample(healthy(), options).findings, "LAYERS_MISMATCH");
    CHECK(layers.severity == Severity::error);
    CHECK(layers.message == "3 layers, --layers says 4");
    CHECK(layers.hint.find("MoE layers only") != std::string::npos);
    CHECK(find(check_sample(healthy(), options).findings, "FULL_RING").code ==
          "FULL_RING");  // the other checks still run
    options = {};
    options.experts = 3;
    const Finding experts = find(check_sample(healthy(), options).findings, "EXPERTS_MISMATCH");
    CHECK(experts.severity == Severity::error);
    CHECK(experts.hint.find("shared") != std::string::npos);
}

TEST_CASE("an unfinished file is recognised by its name") {
    const Tensor tensor = healthy().tensor();
    CHECK(find(check_counts("a/x.pt.tmp", tensor, Reduction::reduced, {}).findings, "TEMPORARY_FILE").severity ==
          Severity::warning);
    CHECK(find(check_counts("a.tmp/x.pt", tensor, Reduction::reduced, {}).findings, "TEMPORARY_FILE").code.empty());
}

TEST_CASE("the reduction is the format's, then the user's, and the two must not contradict") {
    CountOptions options;
    CHECK(find(check_sample(healthy(), options, Reduction::unknown).findings, "REDUCTION_UNKNOWN").severity ==
          Severity::info);
    options.reduction = Reduction::reduced;
    CHECK(check_sample(healthy(), options, Reduction::unknown).reduction == Reduction::reduced);
    CHECK(find(check_sample(healthy(), options, Reduction::unknown).findings, "REDUCTION_UNKNOWN").code.empty());
    options.reduction = Reduction::per_rank;
    CHECK(find(check_sample(healthy(), options, Reduction::unknown).findings, "PER_RANK_COUNTS").severity ==
          Severity::warning);
    CHECK(find(check_sample(healthy(), options, Reduction::reduced).findings, "REDUCTION_CONFLICT").severity ==
          Severity::error);
}

TEST_CASE("every finding of a check is announced in the table") {
    // One sample that trips most checks at once: announced codes are a promise to the reference page.
    Sample sample = healthy();
    sample.at(3, 1, 0) += 50;
    CountOptions options;
    options.top_k = 3;
    options.expect_total = 1;
    const CountReport report = check_sample(sample, options, Reduction::unknown);
    CHECK(report.findings.size() >= 6);
    for (const Finding& finding : report.findings) {
        bool announced = false;
        for (const CountCheck& check : count_checks()) {
            for (const CountCode& code : check.codes) {
                announced = announced || (code.name == finding.code && code.worst >= finding.severity);
            }
        }
        CAPTURE(finding.code);
        CHECK(announced);
    }
}
