// Formats that are a meaning of an array, and counts that torch files keep in several tensors.
#include <catch2/catch.hpp>

#include "counts_io/expand_inputs.hpp"
#include "decode.hpp"
#include "file_set.hpp"
#include "files/npy.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

std::string npy_of(const std::vector<std::int32_t>& values, const std::vector<std::int64_t>& shape) {
    const std::vector<std::byte> bytes = encode_npy(values, shape);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

CountOptions as(const std::string& format, std::optional<int> experts = std::nullopt) {
    CountOptions options;
    options.format = format;
    options.experts = experts;
    return options;
}

// Three tokens, two layers, top-2.
const std::string ids = npy_of({0, 1, 2, 3, 1, 0, 3, -1, 1, 2, 0, 2}, {3, 2, 2});

}  // namespace

TEST_CASE("routed ids are counted, so many tokens to a record slot") {
    CountOptions options = as("routed-ids");
    options.tokens_per_slot = 2;
    const CountFile file = decode(ids, options);
    CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 2, 4});
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{2, 2, 0, 0, 0, 0, 1, 2, 0, 1, 1, 0, 1, 0, 1, 0});
    CHECK(file.reduction == Reduction::reduced);
    CHECK(finding_in(file, "EXPERTS_NOT_STATED"));
    CHECK(finding_in(file, "IDS_COUNTED"));
    options.tokens_per_slot = 3;
    CHECK(decode(ids, options).tensor.shape[0] == 1);
    options.tokens_per_slot = std::numeric_limits<std::int64_t>::max();
    CHECK(decode(ids, options).tensor.shape[0] == 1);
    const CountFile stated = decode(ids, as("routed-ids", 6));
    CHECK(stated.tensor.shape == std::vector<std::int64_t>{1, 2, 6});
    CHECK_FALSE(finding_in(stated, "EXPERTS_NOT_STATED"));
    CHECK(values_of(decode("[[[0, 1], [1, 0]]]", as("routed-ids")).tensor) == std::vector<std::int64_t>{1, 1, 1, 1});
}

TEST_CASE("256 tokens make a record slot where nothing else is said") {
    CHECK(decode(npy_of(std::vector<std::int32_t>(256, 0), {256, 1, 1}), as("routed-ids")).tensor.shape[0] == 1);
    CHECK(decode(npy_of(std::vector<std::int32_t>(257, 0), {257, 1, 1}), as("routed-ids")).tensor.shape[0] == 2);
}

TEST_CASE("ids that are none are refused by token, layer and choice") {
    CHECK_THAT(decode_error(ids, as("routed-ids", 3)).what(),
               Catch::Contains("token 0, layer 1, choice 1") && Catch::Contains("id 3"));
    CHECK_THAT(decode_error(npy_of({0, 1, 2, 2}, {1, 2, 2}), as("routed-ids")).what(),
               Catch::Contains("token 0, layer 1, choice 1") && Catch::Contains("twice"));
    CHECK_THAT(decode_error(npy_of({0, -2}, {1, 1, 2}), as("routed-ids")).message(), Catch::Contains("-2"));
    CHECK(decode_error(npy_of({-1, -1}, {1, 1, 2}), as("routed-ids")).finding_code() == "EMPTY_COUNTS");
    CHECK(decode_error(npy_of({0, 1}, {1, 2}), as("routed-ids")).finding_code() == "BAD_GEOMETRY");
    CHECK(decode_error(npy_of({}, {0, 2, 2}), as("routed-ids")).finding_code() == "EMPTY_COUNTS");
    CHECK(decode_error("1,2\n", as("routed-ids")).finding_code() == "NOT_A_COUNT_FILE");
    CHECK(decode_error(npy_of({2000000000}, {1, 1, 1}), as("routed-ids")).finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("ids of physical slots are folded by the recorded layout") {
    const FileSet files;
    CountOptions options = as("routed-ids");
    options.recorded_layout = files.add("layout.json", R"({"physical_to_logical_map": [[0, 1, 2, 0], [2, 1, 0, 2]]})");
    // Layer 0 slots 0 1 1 0 1 2 -> experts 0 1 1 0 1 2; layer 1 slots 2 3 3 0 2 -> 0 2 2 2 0.
    CHECK(values_of(decode(ids, options).tensor) == std::vector<std::int64_t>{2, 3, 1, 2, 0, 3});
}

TEST_CASE("tokens of a record slot are refused where nothing is cut into record slots") {
    CountOptions options;
    options.tokens_per_slot = 2;
    CHECK(decode_error(ids, options).code() == ErrorCode::usage);
}

TEST_CASE("xLLM's prefix sums are differenced over the slots") {
    const FileSet files;
    // Two passes, one layer, rank 1 of 2 with two slots each.
    const CountFile file = files.read("load_rank_1.npy", npy_of({3, 7, 0, 5}, {2, 1, 2}), as("xllm-prefix", 4));
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{0, 0, 3, 4, 0, 0, 0, 5});
    CHECK(file.reduction == Reduction::per_rank);
    CHECK(file.window->rank == 1);
    CHECK(file.window->sequence == std::vector<std::int64_t>{0, 1});
    const CountFile all = files.read("load.npy", npy_of({3, 7, 1, 6}, {1, 1, 2, 2}), as("xllm-prefix", 4));
    CHECK(values_of(all.tensor) == std::vector<std::int64_t>{3, 4, 1, 5});
    CHECK(all.reduction == Reduction::reduced);
    CHECK_THAT(files.refused("load.npy", npy_of({3, 2}, {1, 1, 2}), as("xllm-prefix", 2)).what(),
               Catch::Contains("[0, 0, 1]") && Catch::Contains("from 3 to 2"));
    CHECK(files.refused("load.npy", npy_of({-1, 2}, {1, 1, 2}), as("xllm-prefix", 2)).finding_code() == "MALFORMED");
    CHECK(files.refused("load.npy", npy_of({3, 7}, {1, 1, 2}), as("xllm-prefix")).finding_code() == "LAYOUT_NEEDED");
}

namespace {

TensorSpec int64_tensor(const std::vector<std::int64_t>& shape, std::int64_t offset, const std::string& key = "0") {
    TensorSpec spec = TensorSpec::of(shape);
    spec.storage = global("torch", "LongStorage");
    spec.offset = offset;
    spec.key = key;
    return spec;
}

}  // namespace

TEST_CASE("physical counts beside their layout in a torch file are folded by it") {
    TensorSpec counts = int64_tensor({1, 3}, 0), map = int64_tensor({1, 3}, 3);
    counts.elements = map.elements = 6;
    const auto file = [&](const std::string& more = "") {
        std::string body = "}(" + pickled("physical_count") + counts.opcodes() + pickled("physical_to_logical_map") +
                           map.opcodes() + more + "u";
        return torch_file(pickle(body), raw_bytes<std::int64_t>({5, 6, 7, 1, 0, 1}));
    };
    CHECK(values_of(decode(file()).tensor) == std::vector<std::int64_t>{6, 12});
    CHECK(decode(file()).reduction == Reduction::unknown);
    CHECK_THAT(decode_error(file(pickled("other") + counts.opcodes())).message(), Catch::Contains("3 tensors"));
    const std::string layout = torch_file(pickle(dict({{"physical_to_logical_map", map.opcodes()}})),
                                          raw_bytes<std::int64_t>({5, 6, 7, 1, 0, 1}));
    CHECK_THAT(decode_error(layout).message(), Catch::Contains("this is a layout"));
}

TEST_CASE("a tensor for each layer is stacked, by number or by place") {
    TensorSpec a = int64_tensor({2}, 0), b = int64_tensor({2}, 2);
    a.elements = b.elements = 4;
    const std::string bytes = raw_bytes<std::int64_t>({1, 2, 3, 4});
    const CountFile by_key = decode(torch_file(
        pickle("}(" + pickled(std::int64_t{2}) + a.opcodes() + pickled(std::int64_t{1}) + b.opcodes() + "u"), bytes));
    CHECK(by_key.tensor.shape == std::vector<std::int64_t>{1, 3, 2});
    CHECK(values_of(by_key.tensor) == std::vector<std::int64_t>{0, 0, 3, 4, 1, 2});
    CHECK(values_of(decode(torch_file(pickle("](" + a.opcodes() + b.opcodes() + "e"), bytes)).tensor) ==
          std::vector<std::int64_t>{1, 2, 3, 4});
    CHECK(decode_error(torch_file(pickle(dict({{"layer_0", a.opcodes()}, {"bias", b.opcodes()}})), bytes))
              .finding_code() == "NOT_A_COUNT_FILE");
    // Three layers out of a storage of two.
    const std::string shared = "](" + a.opcodes() + b.opcodes() + a.opcodes() + "e";
    CHECK_THAT(decode_error(torch_file(pickle(shared), bytes)).message(), Catch::Contains("share a storage"));
}

namespace {

// A per-token dump of one layer: experts 1 0 1 in three slots, top-2 ids of two tokens in each pass.
std::string per_token(const std::vector<std::int64_t>& id_values) {
    TensorSpec map = int64_tensor({1, 3}, 0, "1");
    std::string records = "](";
    for (std::int64_t pass = 0; pass < 2; ++pass) {
        TensorSpec tensor = int64_tensor({1, 2, 2}, 4 * pass);
        tensor.elements = 8;
        records += dict({{"forward_pass_id", pickled(pass)},
                         {"rank", pickled(std::int64_t{0})},
                         {"gatherer_key", pickled("primary")},
                         {"topk_ids_of_layer", tensor.opcodes()}});
    }
    return zip_of(
        {{"d/data.pkl", pickle(dict({{"records", records + "e"}, {"last_physical_to_logical_map", map.opcodes()}}))},
         {"d/byteorder", "little"},
         {"d/data/0", raw_bytes(id_values)},
         {"d/data/1", raw_bytes<std::int64_t>({1, 0, 1})},
         {"d/version", "3\n"}});
}

}  // namespace

TEST_CASE("the ids of a per-token dump without counts are counted") {
    const CountFile file = decode(per_token({0, 1, 2, -1, 1, 2, -1, -1}));
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{1, 2, 1, 1});
    CHECK(file.reduction == Reduction::per_rank);
    CHECK(file.window->sequence == std::vector<std::int64_t>{0, 1});
    CHECK_THAT(decode_error(per_token({0, 1, 2, 3, 1, 2, -1, -1})).what(),
               Catch::Contains("pass 0, layer 0, token 1") && Catch::Contains("3 is none of the 3"));
    const Error nothing = decode_error(per_token(std::vector<std::int64_t>(8, -1)));
    CHECK(nothing.finding_code() == "EMPTY_COUNTS");
    CHECK_THAT(nothing.what(), Catch::Contains("-1") && Catch::Contains("recorder-mode stat"));
}

TEST_CASE("folders and patterns become their files in the order of their numbers") {
    const FileSet files;
    for (const char* name : {"decode_10.csv", "decode_2.csv", "decode_2_bak.csv", "decode_topk_2.csv",
                             "model_gen_config.json", ".hidden", "a.window.json"}) {
        files.add(name, "1");
    }
    const std::string folder = files.path().string();
    const std::vector<std::string> both{folder + "/decode_2.csv", folder + "/decode_10.csv"};
    CHECK(expand_inputs({folder}) == both);
    // A pattern means what it matches, a backup too.
    CHECK(expand_inputs({folder + "/decode_[0-9]*.csv", "-", "no such file"}) ==
          std::vector<std::string>{both[0], folder + "/decode_2_bak.csv", both[1], "-", "no such file"});
    CHECK(error_of([&] { expand_inputs({folder + "/x*"}); }).code() == ErrorCode::input);
    const FileSet empty;
    CHECK(error_of([&] { expand_inputs({empty.path().string()}); }).code() == ErrorCode::input);
    files.add("a*b.csv", "1");
    CHECK(expand_inputs({folder + "/a*b.csv"}) == std::vector<std::string>{folder + "/a*b.csv"});
}
