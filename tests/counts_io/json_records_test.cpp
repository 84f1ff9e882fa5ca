// JSON lines, a key for each layer, and bare lists.
#include <catch2/catch.hpp>

#include "decode.hpp"
#include "file_set.hpp"

using namespace eplb;

TEST_CASE("JSON lines are record slots in the order of time") {
    const CountFile file = decode(
        "{\"step\": 3, \"logical_count\": [[1, 2], [3, 4]]}\n"
        "{\"step\": 5, \"logical_count\": [[5, 6], [7, 8]]}\n\n");
    CHECK(file.format == "jsonl");
    CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 2, 2});
    CHECK(values_of(file.tensor) == ascending<std::int64_t>(8));
    CHECK(file.reduction == Reduction::reduced);
    REQUIRE(file.window);
    CHECK(file.window->sequence == std::vector<std::int64_t>{3, 5});
    CHECK(file.findings.empty());  // "step" was read
}

TEST_CASE("records without a number are numbered, and may hold several record slots") {
    const CountFile file = decode("{\"logical_count\": [[[1, 2]], [[3, 4]]]}\r\n{\"logical_count\": [[5, 6]]}");
    CHECK(values_of(file.tensor) == ascending<std::int64_t>(6));
    CHECK(file.window->sequence == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("records that contradict each other are refused by their line") {
    const auto refused = [](const std::string& first, const std::string& second) {
        return decode_error(first + "\n" + second + "\n");
    };
    const std::string one = R"({"step": 3, "logical_count": [[1, 2]]})";
    CHECK_THAT(refused(one, one).what(), Catch::Contains("line 2") && Catch::Contains("record 3 is there twice"));
    CHECK_THAT(refused(one, R"({"step": 2, "logical_count": [[1, 2]]})").message(), Catch::Contains("2 comes after 3"));
    CHECK_THAT(refused(one, R"({"step": 4, "logical_count": [[1, 2, 3]]})").what(),
               Catch::Contains("line 2") && Catch::Contains("[1, 3]"));
    CHECK(refused(one, R"({"step": 4, "0": [1, 2]})").finding_code() == "MALFORMED");  // another kind of record
    CHECK(refused(one, R"({"step": 4, "logical_count": [[1, null]]})").where() == "x: line 2: $.logical_count[0][1]");
    CHECK(refused(one, R"({"step": 4, "logical_)").finding_code() == "TRUNCATED");
    CHECK(refused(one, R"({"step": 4})").finding_code() == "NOT_A_COUNT_FILE");
}

TEST_CASE("one object over several lines is JSON, not JSON lines") {
    CHECK(decode("{\"logical_count\":\n[[1, 2]]}\n").format == "json");
    CHECK(decode("{\"logical_count\": [[1, 2]]}\n").format == "json");
}

TEST_CASE("keys that number layers are rows; a layer without a key is zero") {
    const CountFile file = decode(R"({"3": [7, 8], "1": [5, 6], "model": "m"})");
    CHECK(file.tensor.shape == std::vector<std::int64_t>{1, 4, 2});
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{0, 0, 5, 6, 0, 0, 7, 8});
    CHECK(file.reduction == Reduction::unknown);
    REQUIRE(finding_in(file, "EXTRA_KEYS"));
    CHECK(finding_in(file, "EXTRA_KEYS")->where == "$.model");
    CHECK(values_of(decode(R"({"layer_0": [[1, 2], [5, 6]], "layers.1": [[3, 4], [7, 8]]})").tensor) ==
          ascending<std::int64_t>(8));  // [record slots][experts] a layer
    CHECK(decode(R"({"0": [1, 2.0]})").tensor.dtype == DType::float64);
    CountOptions options;
    options.layers = 3;
    CHECK(decode(R"({"0": [1, 2]})", options).tensor.shape == std::vector<std::int64_t>{1, 3, 2});
    options.layers = 1;
    CHECK(decode_error(R"({"0": [1, 2], "1": [1, 2]})", options).finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("layers that contradict each other are refused") {
    CHECK(decode_error(R"({"0": [1, 2], "1": [1, 2, 3]})").where() == "x: $.1");
    CHECK(decode_error(R"({"0": [1, 2], "0": [1, 2]})").finding_code() == "MALFORMED");
    CHECK_THAT(decode_error(R"({"0": [1, 2], "layer_0": [1, 2]})").message(), Catch::Contains("there twice"));
    CHECK_THAT(decode_error(R"({"0": [1, 2], "01": [1, 2]})").what(), Catch::Contains("$.01"));
    CHECK(decode_error(R"({"4096": [1, 2]})").finding_code() == "NOT_A_COUNT_FILE");  // no layer of a model
    CHECK(decode_error(R"({"0": [[[1]]]})").finding_code() == "BAD_GEOMETRY");
    CHECK(decode(R"({"0": []})").tensor.numel() == 0);  // for the checks to refuse
}

TEST_CASE("few layers with large numbers do not make a tensor of zeros") {
    std::string row = "1";
    for (int expert = 1; expert < 2048; ++expert) row += ",1";
    CHECK(decode("{\"2047\": [" + row + "]}").tensor.shape == std::vector<std::int64_t>{1, 2048, 2048});  // 32 MiB
    CHECK(decode_error("{\"2048\": [" + row + "]}").finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("a bare list is counts, unless every row names every expert as a layout does") {
    const CountFile file = decode("[[3, 0, 9], [4, 5, 6]]");
    CHECK(file.format == "json");
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{3, 0, 9, 4, 5, 6});
    CHECK(file.reduction == Reduction::unknown);
    CHECK_THAT(decode_error("[[0, 1, 0], [1, 0, 0]]").message(), Catch::Contains("layout"));
    CHECK_NOTHROW(decode("[[0, 1, 0], [1, 1, 1]]"));  // row 1 lacks expert 0
    CountOptions options;
    options.format = "json";
    CHECK_NOTHROW(decode("[[0, 1, 0], [1, 0, 0]]", options));
}
