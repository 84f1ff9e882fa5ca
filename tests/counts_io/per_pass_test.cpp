// SGLang's per-pass dumps: records of one rank with pass ids, and the last layout.
#include <catch2/catch.hpp>

#include "decode.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

struct Pass {
    std::int64_t id = 0, rank = 3;
    std::string gatherer = "primary";
};

// Two layers on three slots. Layer 0 holds experts 1 0 1, layer 1 experts 0 1 0. All passes share one storage of counts
// 0..11: pass i has the six from 6 i on.
std::string dump(const std::vector<Pass>& passes, const std::vector<std::int64_t>& map = {1, 0, 1, 0, 1, 0},
                 std::vector<std::int32_t> counts = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
    TensorSpec layout = TensorSpec::of({2, 3});
    layout.storage = global("torch", "LongStorage");
    layout.key = "1";
    std::string records = "](";
    for (std::size_t position = 0; position < passes.size(); ++position) {
        TensorSpec tensor = TensorSpec::of({2, 3});
        tensor.elements = static_cast<std::int64_t>(counts.size());
        tensor.offset = static_cast<std::int64_t>(6 * position);
        records += dict({{"forward_pass_id", pickled(passes[position].id)},
                         {"rank", pickled(passes[position].rank)},
                         {"gatherer_key", pickled(passes[position].gatherer)},
                         {"global_physical_count", tensor.opcodes()}});
    }
    return zip_of(
        {{"d/data.pkl", pickle(dict({{"records", records + "e"}, {"last_physical_to_logical_map", layout.opcodes()}}))},
         {"d/byteorder", "little"},
         {"d/data/0", raw_bytes(counts)},
         {"d/data/1", raw_bytes(map)},
         {"d/version", "3\n"}});
}

}  // namespace

TEST_CASE("per-pass records are folded with the layout and put into the order of their passes") {
    const CountFile file = decode(dump({{9}, {7}}));
    CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 2, 2});
    // Pass 7 holds 6..11: layer 0 slots 6 7 8 -> expert 0: 7, expert 1: 6 + 8; layer 1 slots 9 10 11 -> 9 + 11, 10.
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{7, 14, 20, 10, 1, 2, 8, 4});
    CHECK(file.reduction == Reduction::per_rank);
    REQUIRE(file.window);
    CHECK(file.window->rank == 3);
    CHECK(file.window->members.empty());
    CHECK(file.window->sequence == std::vector<std::int64_t>{7, 9});
}

TEST_CASE("dumps of the same layout have one digest, of another layout another") {
    const auto digest = [](const std::vector<std::int64_t>& map) {
        return decode(dump({{1}, {2}}, map)).window->layouts;
    };
    CHECK(digest({1, 0, 1, 0, 1, 0}) == digest({1, 0, 1, 0, 1, 0}));
    CHECK(digest({1, 0, 1, 0, 1, 0}) != digest({1, 0, 0, 0, 1, 0}));
}

TEST_CASE("a per-pass dump that contradicts itself is refused") {
    CHECK_THAT(decode_error(dump({{4}, {4}})).message(), Catch::Contains("pass 4 is recorded twice"));
    CHECK_THAT(decode_error(dump({{4, 3}, {5, 2}})).message(),
               Catch::Contains("a pass of rank 2 in the dump of rank 3"));
    CHECK_THAT(decode_error(dump({{4, 3, "child_a"}})).message(), Catch::Contains("several gatherers"));
    CHECK_THAT(decode_error(dump({{4}}, {1, 0, -1, 0, 1, 0})).message(), Catch::Contains("negative"));
    CHECK_THAT(decode_error(dump({{4}}, {1, 0, 1, 0, 1, 0}, {0, 1, 2, 3, -4, 5})).what(),
               Catch::Contains("pass 4, layer 1, physical slot 1") && Catch::Contains("-4"));
    CHECK(decode_error(dump({{4}, {5}, {6}})).finding_code() == "BAD_GEOMETRY");  // beyond the storage
}

TEST_CASE("records without their parts are refused by the missing name") {
    const std::string layout = TensorSpec::of({2, 3}).opcodes();
    const auto error = [&](const std::string& record) {
        return decode_error(
            torch_file(pickle(dict({{"records", "](" + record + "e"}, {"last_physical_to_logical_map", layout}})),
                       std::string(24, '\0')));
    };
    CHECK_THAT(error(dict({{"forward_pass_id", pickled(1)}})).message(), Catch::Contains("\"rank\""));
    CHECK_THAT(error("N").message(), Catch::Contains("\"rank\""));
    CHECK(decode_error(torch_file(pickle(dict({{"records", "]"}})), "")).finding_code() == "MALFORMED");
}

TEST_CASE("passes that share their elements are refused before counts are made of them") {
    // Three passes in a storage of twelve would fit if the third were the first again.
    TensorSpec layout = TensorSpec::of({2, 3}), first = TensorSpec::of({2, 3});
    layout.storage = global("torch", "LongStorage");
    layout.key = "1";
    first.elements = 12;
    std::string records = "](";
    for (const std::int64_t pass : {1, 2, 3}) {
        records += dict({{"forward_pass_id", pickled(pass)},
                         {"rank", pickled(std::int64_t{0})},
                         {"gatherer_key", pickled("primary")},
                         {"global_physical_count", first.opcodes()}});
    }
    const Error error = decode_error(zip_of(
        {{"d/data.pkl", pickle(dict({{"records", records + "e"}, {"last_physical_to_logical_map", layout.opcodes()}}))},
         {"d/data/0", std::string(48, '\0')},
         {"d/data/1", std::string(48, '\0')}}));
    CHECK(error.finding_code() == "BAD_GEOMETRY");
    CHECK_THAT(error.what(), Catch::Contains("pass 3") && Catch::Contains("share a storage"));
}

TEST_CASE("a layout names no more experts than it has slots") {
    CHECK(decode(dump({{4}}, {2, 1, 0, 0, 1, 2})).tensor.shape == std::vector<std::int64_t>{1, 2, 3});
    const Error error = decode_error(dump({{4}}, {3, 1, 0, 0, 1, 2}));
    CHECK(error.finding_code() == "BAD_GEOMETRY");
    CHECK_THAT(error.message(), Catch::Contains("expert 3 on 3 physical slots"));
    CHECK(decode_error(dump({{4}}, {INT64_MAX, 1, 0, 0, 1, 2})).finding_code() == "BAD_GEOMETRY");
}
