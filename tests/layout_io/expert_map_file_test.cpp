#include "layout_io/expert_map_file.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "files/temporary_folder.hpp"
#include "layout_io/layout_file.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

// Two layers, three experts on 2 devices x 2 slots.
Layout two_layers() {
    std::vector<ExpertId> slots;
    for (const int expert : {2, 0, 1, 2, 0, 1, 2, 0}) slots.push_back(ExpertId{expert});
    return Layout({2, 3, 2, 2}, slots);
}

// The whole line of the error, empty when there is none.
std::string refusal(const std::string& text) {
    try {
        require_expert_map(text, two_layers());
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

std::string with_first(std::string text, const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
    return text;
}

const std::string written_by_the_engine =
    R"({"moe_layer_count": 2, "layer_list": [)"
    R"({"layer_id": 0, "device_count": 2, "device_list": [{"device_id": 0, "device_expert": [2, 0]}, {"device_id": 1, "device_expert": [1, 2]}]},)"
    R"({"layer_id": 1, "device_count": 2, "device_list": [{"device_id": 0, "device_expert": [0, 1]}, {"device_id": 1, "device_expert": [2, 0]}]}]})";

}  // namespace

TEST_CASE("an expert map that says the layout is taken, whatever else it says") {
    CHECK(refusal(written_by_the_engine).empty());
    CHECK(refusal(encode_expert_map(two_layers())).empty());
    CHECK(
        refusal(with_first(written_by_the_engine, "\"layer_id\": 1", "\"layer_id\": 7")).empty());  // read by position
}

TEST_CASE("an expert map of another layout is refused at the place") {
    CHECK(refusal(with_first(written_by_the_engine, "[2, 0]}, {\"device_id\": 1, \"device_expert\": [1, 2]",
                             "[1, 2]}, {\"device_id\": 1, \"device_expert\": [2, 0]"))
              .find("$.layer_list[0].device_list[0].device_expert[0]: is expert 1, the layout has expert 2 there") !=
          std::string::npos);  // devices swapped
    CHECK(refusal(with_first(written_by_the_engine, "[0, 1]", "[1, 0]"))
              .find("$.layer_list[1].device_list[0].device_expert[0]") != std::string::npos);  // slots swapped
    CHECK(refusal(with_first(written_by_the_engine, "[2, 0]", "[2]")).find("has 1 slots, the layout has 2") !=
          std::string::npos);
    CHECK(refusal(with_first(written_by_the_engine, "\"moe_layer_count\": 2", "\"moe_layer_count\": 3"))
              .find("is 3, the layout has 2") != std::string::npos);
    CHECK(refusal(R"({"moe_layer_count": 2, "layer_list": []})").find("has 0 layers, the layout has 2") !=
          std::string::npos);
    CHECK(refusal(R"({"moe_layer_count": 2})").find("layer_list") != std::string::npos);
}

TEST_CASE("SGLang's form, an absent file and what is no JSON are refused") {
    CHECK(refusal(encode_layout(two_layers())).find("the form of SGLang's layout") != std::string::npos);
    CHECK_FALSE(refusal("moe_layer_count").empty());
    CHECK_FALSE(refusal("[]").empty());
    const TemporaryFolder folder;
    CHECK_THROWS_WITH(require_expert_map_file((folder.path() / "map.json").string(), two_layers()),
                      Contains("map.json"));
    CHECK_NOTHROW(require_expert_map_file(folder.write("map.json", encode_expert_map(two_layers())), two_layers()));
}
