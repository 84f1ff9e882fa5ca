#include "files/json_text.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace eplb;

TEST_CASE("printed JSON is valid whatever bytes a name has, and escapes control characters") {
    const nlohmann::ordered_json object{{"file", "a\xff\x1b[31m.pt"}, {"name", "\xc3\xbc"}};
    const std::string text = json_text(object);
    CHECK(text == "{\"file\":\"a\xef\xbf\xbd\\u001b[31m.pt\",\"name\":\"\xc3\xbc\"}\n");
    CHECK(nlohmann::json::accept(text));
    CHECK(json_text(nlohmann::ordered_json{{"a", 1}}, 2) == "{\n  \"a\": 1\n}\n");
}
