#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "files/json_document.hpp"

using namespace eplb;

namespace {

Error parse_error(const std::string& text) {
    return error_of([&] { JsonDocument::parse(text); });
}

}  // namespace

TEST_CASE("values of every kind come back as they stand") {
    const JsonDocument document = JsonDocument::parse(
        R"({"a": [1, -9223372036854775808, 2.5, "x\u00e9", true, null, [], {}], "b": {"c": 9223372036854775807}})");
    std::vector<JsonKind> kinds;
    for (const JsonValue value : document.root().at("a").elements()) kinds.push_back(value.kind());
    CHECK(kinds == std::vector{JsonKind::integer, JsonKind::integer, JsonKind::real, JsonKind::string,
                               JsonKind::boolean, JsonKind::null, JsonKind::array, JsonKind::object});
    CHECK(document.root().at("b").at("c").as_integer() == INT64_MAX);
    CHECK(document.root().at("a").size() == 8);
    CHECK(document.root().size() == 2);
    auto element = document.root().at("a").elements().begin();
    CHECK((*element).as_number() == 1.0);
    CHECK((*++element).as_integer() == INT64_MIN);
    CHECK((*++element).as_number() == 2.5);
    CHECK((*++element).as_string() == "x\xc3\xa9");
    CHECK((*++element).as_boolean());
    std::vector<std::string> keys;
    for (const auto [key, value] : document.root().members()) keys.emplace_back(key);
    CHECK(keys == std::vector<std::string>{"a", "b"});
    CHECK_FALSE(document.root().find("c"));
}

TEST_CASE("a value of the wrong kind is named by its JSON path") {
    const JsonDocument document = JsonDocument::parse(R"({"rows": [[1, 2], [3, {"deep": ["x"]}]], "n": 1e3})");
    const JsonValue row = *++document.root().at("rows").elements().begin();
    const JsonValue deep = (*++row.elements().begin()).at("deep");
    CHECK((*deep.elements().begin()).path() == "$.rows[1][1].deep[0]");
    CHECK(error_of([&] { (*deep.elements().begin()).as_integer(); }).where() == "$.rows[1][1].deep[0]");
    CHECK(error_of([&] { document.root().at("n").as_integer(); }).where() == "$.n");  // an exponent is no integer
    CHECK(error_of([&] { document.root().at("n").elements(); }).where() == "$.n");
    CHECK(error_of([&] { row.as_number(); }).where() == "$.rows[1]");
    CHECK(error_of([&] { document.root().at("m"); }).where() == "$");
}

TEST_CASE("integers outside the asked range are refused with both ends") {
    const JsonDocument document = JsonDocument::parse("[5, 6]");
    auto element = document.root().elements().begin();
    CHECK((*element).as_integer(0, 5) == 5);
    CHECK_THAT(error_of([&] { (*++element).as_integer(0, 5); }).what(), Catch::Contains("6 is outside 0 to 5"));
}

TEST_CASE("an integer above 2^63 - 1 is no integer of ours") {
    const JsonDocument document = JsonDocument::parse("[9223372036854775808]");
    const JsonValue value = *document.root().elements().begin();
    CHECK(value.kind() == JsonKind::real);
    CHECK_THROWS_AS(value.as_integer(), Error);
}

TEST_CASE("our own files may hold known keys only") {
    const JsonDocument document = JsonDocument::parse(R"({"a": 1, "extra": 2})");
    constexpr std::array<std::string_view, 2> known = {"a", "b"}, all = {"a", "extra"};
    const Error error = error_of([&] { document.root().allow_keys(known); });
    CHECK(error.where() == "$.extra");
    CHECK_THAT(error.hint(), Catch::Contains("a, b"));
    CHECK_NOTHROW(document.root().allow_keys(all));
}

TEST_CASE("what is no strict JSON is refused with its byte") {
    CHECK(parse_error(R"({"a": 1, "a": 1})").finding_code() == "MALFORMED");
    CHECK_NOTHROW(JsonDocument::parse(R"({"a": {"a": 1}})"));  // the same key one level down is another key
    CHECK_THAT(parse_error("[1, NaN]").hint(), Catch::Contains("NaN"));
    CHECK(parse_error("[1, NaN]").where() == "byte 5");
    CHECK_THAT(parse_error("[-Infinity]").hint(), Catch::Contains("NaN"));
    CHECK(parse_error("[1e999]").finding_code() == "MALFORMED");
    CHECK(parse_error("[1,]").finding_code() == "MALFORMED");
    CHECK(parse_error("{} x").finding_code() == "MALFORMED");
    CHECK(parse_error("[\"\xff\"]").finding_code() == "MALFORMED");
    CHECK(parse_error("// no\n[]").finding_code() == "MALFORMED");
}

TEST_CASE("a document cut at any byte is truncated, not malformed") {
    const std::string text = R"({"logical_count": [[1, 23], [4.5, 6]], "x": "yz"})";
    for (std::size_t size = 0; size < text.size(); ++size) {
        CAPTURE(size);
        CHECK(parse_error(text.substr(0, size)).finding_code() == "TRUNCATED");
    }
}

TEST_CASE("nesting is bounded, so a deep document neither recurses nor crashes") {
    CHECK_NOTHROW(JsonDocument::parse(std::string(64, '[') + std::string(64, ']')));
    CHECK_THAT(parse_error(std::string(65, '[') + std::string(65, ']')).what(), Catch::Contains("deeper than 64"));
    CHECK(parse_error(std::string(5'000'000, '[')).finding_code() == "MALFORMED");
}

TEST_CASE("a repeated key is named with the place of its object, however many keys there are") {
    CHECK_THAT(parse_error(R"({"a": [{"x": 1, "y": 2, "x": 3}]})").what(),
               Catch::Contains("$.a[0]") && Catch::Contains("key \"x\" stands twice"));
    CHECK_NOTHROW(JsonDocument::parse(R"({"a": {"a": 1}, "b": {"a": 1}})"));
    std::string many = "{";
    for (int key = 0; key < 1000; ++key) many += "\"" + std::to_string(key) + "\": [{}], ";
    CHECK_NOTHROW(JsonDocument::parse(many + "\"1000\": 0}"));
    CHECK(parse_error(many + "\"999\": 0}").finding_code() == "MALFORMED");
}

TEST_CASE("an error quotes the start of a long value only") {
    const std::string digits(100'000, '9');
    CHECK(std::string(parse_error("[" + digits + "]").what()).size() < 400);
    CHECK(std::string(parse_error("[\"" + digits).what()).size() < 400);
    CHECK(std::string(parse_error("{\"" + digits + "\": 0, \"" + digits + "\": 0}").what()).size() < 400);
}
