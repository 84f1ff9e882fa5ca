// Counts of physical slots become counts of experts with the layout that was in force.
#include <catch2/catch.hpp>

#include "decode.hpp"
#include "file_set.hpp"
#include "files/npy.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

// Two layers, three experts in four slots: layer 0 holds 1 0 2 1, layer 1 holds 2 2 0 1.
constexpr const char* layout = R"({"physical_to_logical_map": [[1, 0, 2, 1], [2, 2, 0, 1]]})";

std::string npy_of(const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& shape) {
    const std::vector<std::byte> bytes = encode_npy(values, shape);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Slots 1 2 3 4 in layer 0 and 5 6 7 8 in layer 1; twice that in a second record slot.
const std::vector<std::int64_t> two_slots{1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 6, 8, 10, 12, 14, 16};
// Layer 0: expert 0 in slot 1; expert 1 in slots 0 and 3; expert 2 in slot 2. Layer 1: 0 in 2, 1 in 3, 2 in 0 and 1.
const std::vector<std::int64_t> two_folded{2, 5, 3, 7, 8, 11, 4, 10, 6, 14, 16, 22};
const std::vector<std::int64_t> one_folded{2, 5, 3, 7, 8, 11};

}  // namespace

TEST_CASE("an array of physical slots is folded by the recorded layout") {
    const FileSet files;
    const CountOptions options = with_layout(files.add("layout.json", layout));
    const CountFile file = files.read("x.npy", npy_of(two_slots, {2, 2, 4}), options);
    CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 2, 3});
    CHECK(values_of(file.tensor) == two_folded);
    CHECK(file.reduction == Reduction::unknown);  // nothing says whose counts these are
    CHECK(finding_in(file, "SLOTS_FOLDED"));
    CHECK(values_of(files.read("y.npy", npy_of({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}), options).tensor) == one_folded);
}

TEST_CASE("axes of ranks are recognised where the layout leaves no other reading") {
    const FileSet files;
    const CountOptions options = with_layout(files.add("layout.json", R"({"physical_to_logical_map":
        [[1, 0, 2, 1, 0, 1], [2, 2, 0, 1, 0, 1]]})"));
    // [ranks, layers, slots] with 3 ranks of 2 slots: layer 0 counts 1 2 | 3 4 | 5 6, layer 1 counts 7 8 | 9 10 |
    // 11 12.
    const std::vector<std::int64_t> folded{2 + 5, 1 + 4 + 6, 3, 9 + 11, 10 + 12, 7 + 8};
    const CountFile by_rank = files.read("a.npy", npy_of({1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}, {3, 2, 2}), options);
    CHECK(by_rank.tensor.shape == std::vector<std::int64_t>{1, 2, 3});
    CHECK(values_of(by_rank.tensor) == folded);
    CHECK(by_rank.reduction == Reduction::reduced);  // the slots of every rank are there
    CHECK(values_of(files.read("b.npy", npy_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 2}), options).tensor) ==
          folded);  // [layers, ranks, slots], as vllm-ascend gathers
    CHECK(
        values_of(files.read("c.npy", npy_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 2, 3, 2}), options).tensor) ==
        folded);  // [record slots, layers, ranks, slots]
}

TEST_CASE("axes that a layout does not fit, or fits twice, are refused") {
    const FileSet files;
    const CountOptions options = with_layout(files.add("layout.json", layout));
    const Error wide = files.refused("a.npy", npy_of(ascending<std::int64_t>(10), {1, 2, 5}), options);
    CHECK(wide.finding_code() == "LAYOUT_MISMATCH");
    CHECK_THAT(wide.message(), Catch::Contains("[1, 2, 5]") && Catch::Contains("2 layers x 4 physical slots"));
    CHECK(files.refused("b.npy", npy_of(ascending<std::int64_t>(12), {1, 3, 4}), options).finding_code() ==
          "LAYOUT_MISMATCH");
    const Error twice = files.refused("c.npy", npy_of(ascending<std::int64_t>(8), {2, 2, 2}), options);
    CHECK_THAT(twice.message(), Catch::Contains("[ranks, layers, slots] and as [layers, ranks, slots]"));
}

TEST_CASE("values that are no counts are refused when they are folded") {
    const FileSet files;
    const CountOptions options = with_layout(files.add("layout.json", layout));
    const Error negative = files.refused("a.npy", npy_of({1, 2, 3, 4, 5, -6, 7, 8}, {2, 4}), options);
    CHECK(negative.finding_code() == "MALFORMED");
    CHECK_THAT(negative.what(), Catch::Contains("layer 1, physical slot 1") && Catch::Contains("-6"));
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK(files.refused("b.npy", npy_of({most, 2, 3, 1, 5, 6, 7, 8}, {2, 4}), options).finding_code() ==
          "SUM_TOO_LARGE");  // slots 0 and 3 hold one expert
    CHECK(values_of(files.read("c.npy", npy_of({most - 1, 2, 3, 1, 5, 6, 7, 8}, {2, 4}), options).tensor)[1] == most);
}

TEST_CASE("counts of experts are not folded a second time") {
    const FileSet files;
    const CountOptions options = with_layout(files.add("layout.json", layout));
    CHECK(files.refused("x.json", R"({"logical_count": [[1, 2, 3, 4], [5, 6, 7, 8]]})", options).finding_code() ==
          "LAYOUT_MISMATCH");
}

TEST_CASE("the layout in a JSON file folds the counts beside it") {
    const std::string text =
        R"({"physical_count": [[1, 2, 3, 4], [5, 6, 7, 8]], "physical_to_logical_map": [[1, 0, 2, 1], [2, 2, 0, 1]]})";
    CHECK(values_of(decode(text).tensor) == one_folded);
    CHECK(decode(text, with_experts(4)).tensor.shape == std::vector<std::int64_t>{1, 2, 4});
    CHECK(decode_error(text, with_experts(2)).finding_code() == "BAD_GEOMETRY");  // expert 2 is none of the two
    CHECK(decode_error(text, with_experts(5)).finding_code() == "BAD_GEOMETRY");  // five do not fit on four slots
    CHECK_THAT(decode_error(R"({"a": [[1]], "b": [[2]], "physical_to_logical_map": [[0]]})").message(),
               Catch::Contains("a, b"));
}

TEST_CASE("every engine's layout can be the recorded one") {
    const FileSet files;
    const auto folded = [&](const std::string& path) {
        return values_of(files.read("x.npy", npy_of({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}), with_layout(path)).tensor);
    };
    CHECK(folded(files.add("ascend.json", R"({"moe_layer_count": 2, "layer_list": [
        {"layer_id": 0, "device_list": [{"device_expert": [1, 0]}, {"device_expert": [2, 1]}]},
        {"layer_id": 1, "device_list": [{"device_expert": [2, 2]}, {"device_expert": [0, 1]}]}]})")) == one_folded);
    CHECK(folded(files.add("ids.npy", npy_of({1, 0, 2, 1, 2, 2, 0, 1}, {2, 4}))) == one_folded);
    CHECK(folded(files.add("layout.pt",
                           torch_file(pickle(dict({{"physical_to_logical_map", TensorSpec::of({2, 4}).opcodes()}})),
                                      raw_bytes<std::int32_t>({1, 0, 2, 1, 2, 2, 0, 1})))) == one_folded);
    // omni-infer: a rank's experts ascending. Rank 0 holds 0 1 and 0 2, rank 1 holds 1 2 and 1 2.
    CHECK(folded(files.add("omni.npy", npy_of({1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1}, {2, 2, 3}))) ==
          std::vector<std::int64_t>{1, 2 + 3, 4, 5, 7, 6 + 8});
}

TEST_CASE("a recorded layout that is none is refused by its file and place") {
    const FileSet files;
    const auto refused = [&](const std::string& name, const std::string& content) {
        return files.refused("x.npy", npy_of({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}), with_layout(files.add(name, content)));
    };
    CHECK_THAT(refused("a.json", R"({"physical_to_logical_map": [[1, 0, 2, 1], [2, 2, 0]]})").what(),
               Catch::Contains("a.json") && Catch::Contains("layer 1") && Catch::Contains("3 physical slots"));
    CHECK_THAT(refused("b.json", R"({"physical_to_logical_map": [[1, 0, 2, -1], [2, 2, 0, 1]]})").what(),
               Catch::Contains("layer 0, slot 3") && Catch::Contains("-1"));
    CHECK_THAT(refused("c.json", R"({"moe_layer_count": 3, "layer_list": []})").what(),
               Catch::Contains("moe_layer_count"));
    CHECK_THAT(refused("d.npy", npy_of({1, 1, 0, 2, 0, 1, 0, 1, 1, 0, 1, 1}, {2, 2, 3})).what(),
               Catch::Contains("[0, 1, 0]"));
    CHECK(refused("e.json", R"({"logical_count": [[1]]})").finding_code() == "NO_LAYOUT");
    CHECK(refused("f.txt", "trivial").finding_code() == "NO_LAYOUT");
    CHECK(refused("g.json", R"({"physical_to_logical_map": []})").finding_code() == "BAD_GEOMETRY");
}
