#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "layout_io/layout_file.hpp"

using namespace eplb;

namespace {

Layout layout_of(const Geometry& geometry, std::vector<int> ids) {
    std::vector<ExpertId> slots;
    for (const int id : ids) slots.push_back(ExpertId{id});
    return Layout(geometry, std::move(slots));
}

std::string layout_error(const std::string& text, int ranks = 2, std::optional<int> experts = {}) {
    try {
        decode_layout(text, ranks, experts);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::input);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a layout is written as the one key that SGLang accepts, a row per line") {
    const Layout layout = layout_of({2, 4, 2, 3}, {0, 3, 1, 2, 3, 0, 1, 2, 0, 3, 2, 1});
    CHECK(encode_layout(layout) == "{\"physical_to_logical_map\": [\n[0, 3, 1, 2, 3, 0],\n[1, 2, 0, 3, 2, 1]\n]}\n");
}

TEST_CASE("a written layout reads back as itself") {
    const Layout layout = layout_of({2, 4, 2, 3}, {0, 3, 1, 2, 3, 0, 1, 2, 0, 3, 2, 1});
    CHECK(decode_layout(encode_layout(layout), 2, std::nullopt) == layout);
    CHECK(decode_layout(encode_layout(layout), 2, 4) == layout);
}

TEST_CASE("the smallest number of 64 bits is no expert, and is not taken for a value that is no number") {
    CHECK_THAT(layout_error(R"({"physical_to_logical_map": [[0, -9223372036854775808]]})"),
               Catch::Contains("$.physical_to_logical_map[0][1]") && Catch::Contains("absurd expert id"));
}

TEST_CASE("the example of SGLang's format is read") {
    const Layout layout = decode_layout(R"({"physical_to_logical_map": [[0, 3, 1, 2, 3, 0]]})", 2, std::nullopt);
    CHECK(layout.geometry() == Geometry{1, 4, 2, 3});
    CHECK(layout.row(0)[1] == ExpertId{3});
}

TEST_CASE("ranks and experts are the caller's word") {
    CHECK(decode_layout(R"({"physical_to_logical_map": [[0, 1]]})", 1, 5).geometry() == Geometry{1, 5, 1, 2});
}

TEST_CASE("what is no layout is refused with the JSON path") {
    CHECK(layout_error("") != "");
    CHECK(layout_error("[[0, 1]]").find("bare list") != std::string::npos);
    CHECK(layout_error(R"({"logical_count": [[1, 2]]})").find("counts (logical_count)") != std::string::npos);
    CHECK(layout_error(R"({"physical_to_logical_map": 3})").find("$.physical_to_logical_map") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": [0, 1]})").find("$.physical_to_logical_map[0]") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, [1]]]})").find("$.physical_to_logical_map[0][1]") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": []})") != "");
    CHECK(layout_error(R"({"physical_to_logical_map": [[]]})") != "");
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 1], [0]]})").find("$.physical_to_logical_map[1]") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 1, 0]]})").find("3 physical slots do not divide by 2") !=
          std::string::npos);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, -1]]})").find("$.physical_to_logical_map[0][1]") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 2]]})", 2, 2).find("expert 2 is outside 0..1") !=
          std::string::npos);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 99999999999999999999]]})") != "");
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 1.0]]})").find("$.physical_to_logical_map[0][1]") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 1]], "version": 1})").find("$.version") == 0);
    CHECK(layout_error(R"({"physical_to_logical_map": [[0, 1]], "physical_to_logical_map": [[1, 0]]})").find("twice") !=
          std::string::npos);
}

TEST_CASE("a layout cut at any byte is refused") {
    const std::string text = encode_layout(layout_of({2, 4, 2, 3}, {0, 3, 1, 2, 3, 0, 1, 2, 0, 3, 2, 1}));
    for (std::size_t length = 0; length + 1 < text.size(); ++length) {
        CAPTURE(length);
        CHECK(layout_error(text.substr(0, length)) != "");
    }
}

TEST_CASE("a lenient reading keeps what is wrong for the checks") {
    const RawLayout raw = decode_raw_layout(
        R"({"physical_to_logical_map": [[0, 3.0, "1"], [true, null, -1, 2.5]], "note": {"a": [1]}, "b": 1})", "x.json");
    CHECK(raw.path == "x.json");
    CHECK(raw.extra_keys == std::vector<std::string>{"note", "b"});
    CHECK(raw.rows == std::vector<std::vector<std::int64_t>>{{0, 3, no_number}, {no_number, no_number, -1, no_number}});
    CHECK(raw.not_integers == 5);
    CHECK(raw.first_not_integer == "3.0");
    CHECK(raw.first_not_integer_path == "$.physical_to_logical_map[0][1]");
}

TEST_CASE("the manifest stands beside the layout") {
    CHECK(manifest_path("out/X.json") == "out/X.manifest.json");
    CHECK(manifest_path("out/X.txt") == "out/X.txt.manifest.json");
    CHECK(manifest_path(".json") == ".json.manifest.json");
}
