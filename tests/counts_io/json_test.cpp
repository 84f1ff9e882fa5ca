#include <catch2/catch.hpp>
#include <random>

#include "decode.hpp"

using namespace eplb;

TEST_CASE("a logical_count object of two or three levels gives its counts, reduced") {
    const CountFile two = decode(R"({"logical_count": [[1, 2], [3, 9007199254740993]]})");
    CHECK(two.format == "json");
    CHECK(two.reduction == Reduction::reduced);
    CHECK(two.tensor.dtype == DType::int64);
    CHECK(two.tensor.shape == std::vector<std::int64_t>{1, 2, 2});
    CHECK(values_of(two.tensor) == std::vector<std::int64_t>{1, 2, 3, 9007199254740993});
    const CountFile three = decode(R"(  {"logical_count": [[[1, 2]], [[3, 4]]]})");
    CHECK(three.tensor.shape == std::vector<std::int64_t>{2, 1, 2});
    CHECK(decode(R"({"logical_count": [[], []]})").tensor.shape == std::vector<std::int64_t>{1, 2, 0});
}

TEST_CASE("one number with a fraction or exponent makes the counts floats, without losing a whole number") {
    const CountFile file = decode(R"({"logical_count": [[1, 2.0], [3e2, 4]]})");
    CHECK(file.tensor.dtype == DType::float64);
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{1, 2, 300, 4});
    CHECK(decode_error(R"({"logical_count": [[9007199254740993, 2.0]]})").finding_code() == "MALFORMED");
    CHECK(decode_error(R"({"logical_count": [[2.0, 9007199254740993]]})").finding_code() == "MALFORMED");
    CHECK(decode(R"({"logical_count": [[2.5]]})").tensor.dtype == DType::float64);  // for the checks to refuse
}

TEST_CASE("a byte order mark before the object does no harm") {
    CHECK(values_of(decode("\xef\xbb\xbf{\"logical_count\": [[1]]}").tensor) == std::vector<std::int64_t>{1});
}

TEST_CASE("other keys are noted, and --dataset names another one") {
    const std::string text = R"({"model": "m", "logical_count": [[1]], "mine": [[2, 3]]})";
    const CountFile file = decode(text);
    REQUIRE(file.findings.size() == 2);
    CHECK(file.findings[0].code == "EXTRA_KEYS");
    CHECK(file.findings[0].where == "$.model");
    CountOptions options;
    options.dataset = "mine";
    CHECK(values_of(decode(text, options).tensor) == std::vector<std::int64_t>{2, 3});
}

TEST_CASE("ragged rows and wrong values are refused with their JSON path") {
    const auto where = [](const std::string& text) { return decode_error(text).where(); };
    CHECK(where(R"({"logical_count": [[1, 2], [3]]})") == "x: $.logical_count[1]");
    CHECK(where(R"({"logical_count": [[1, 2], 3]})") == "x: $.logical_count[1]");
    CHECK(where(R"({"logical_count": [[1, 2], [3, null]]})") == "x: $.logical_count[1][1]");
    CHECK(where(R"({"logical_count": [[1, [2]], [3, 4]]})") == "x: $.logical_count[0][1]");
    CHECK(where(R"({"logical_count": [1, 2]})") == "x: $.logical_count");
    CHECK(where(R"({"logical_count": [[[[1]]]]})") == "x: $.logical_count");
    CHECK(decode_error(R"({"logical_count": []})").finding_code() == "BAD_GEOMETRY");
    CHECK(decode_error(R"({"logical_count": 7})").finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("JSON that holds no counts says what it holds") {
    CHECK(decode_error("\"[[1, 2]]\"",
                       [] {
                           CountOptions options;
                           options.format = "json";
                           return options;
                       }())
              .finding_code() == "NOT_A_COUNT_FILE");
    CHECK(decode_error("{}").finding_code() == "NOT_A_COUNT_FILE");
    CHECK_THAT(decode_error(R"({"physical_to_logical_map": [[0]]})").message(), Catch::Contains("layout"));
}

TEST_CASE("JSON counts cut at any byte are refused as truncated") {
    const std::string text = R"({"logical_count": [[[1, 22, 3]], [[4.5, 5, 6]]]})";
    for (std::size_t size = 1; size < text.size(); ++size) {
        CAPTURE(size);
        CHECK(decode_error(text.substr(0, size)).finding_code() == "TRUNCATED");
    }
}

TEST_CASE("mutated JSON is decoded or refused, never more") {
    const std::string text = R"({"logical_count": [[[1, 22, 3]], [[4.5, 5, 6]]], "n": "\u00e9"})";
    std::mt19937 random(7);
    for (int round = 0; round < 3000; ++round) {
        std::string mutated = text;
        for (int change = 0; change < 2; ++change) mutated[random() % mutated.size()] = static_cast<char>(random());
        try {
            decode(mutated);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::input || error.finding_code().empty()) FAIL(error.what());
        }
    }
}
