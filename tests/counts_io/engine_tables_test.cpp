// The text tables of MindIE, omni-infer and SGLang's first recorder.
#include <catch2/catch.hpp>

#include "decode.hpp"
#include "file_set.hpp"

using namespace eplb;

namespace {

const std::vector<std::int64_t> one_to_8 = ascending<std::int64_t>(8);
constexpr const char* config = R"({"num_moe_layers": 2, "num_of_experts": 4, "collection_Interval": 8})";

}  // namespace

TEST_CASE("MindIE's table of all slots is a window where the experts are stated") {
    const FileSet files;
    const CountFile file = files.read("decode_0.csv", "1,2,3,4\n5,6,7,8\n", with_experts(4));
    CHECK(file.format == "msit-csv");
    CHECK(file.tensor.shape == std::vector<std::int64_t>{1, 2, 4});
    CHECK(values_of(file.tensor) == one_to_8);
    CHECK(file.reduction == Reduction::reduced);
    CHECK_FALSE(file.window);
}

TEST_CASE("MindIE's table of one rank is its share, zero elsewhere") {
    const FileSet files;
    const CountFile file = files.read("prefill_1.csv", "1,2\n3,4\n", with_experts(6));
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0});
    CHECK(file.reduction == Reduction::per_rank);
    REQUIRE(file.window);
    CHECK(file.window->rank == 1);
    CHECK(file.window->members == std::vector<int>{0, 1, 2});
    CHECK(file.window->name == "prefill");
    CHECK(files.refused("decode_3.csv", "1,2\n3,4\n", with_experts(6)).finding_code() == "LAYOUT_MISMATCH");
    CHECK(files.refused("decode.csv", "1,2\n3,4\n", with_experts(6)).finding_code() == "LAYOUT_NEEDED");  // whose?
}

TEST_CASE("what the slots of a text table held is asked for, never guessed") {
    const FileSet files;
    const Error error = files.refused("decode_0.csv", "1,2,3,4\n5,6,7,8\n");
    CHECK(error.finding_code() == "LAYOUT_NEEDED");
    CHECK_THAT(error.hint(), Catch::Contains("--recorded-layout") && Catch::Contains("--experts"));
    CHECK_THAT(files.refused("decode_0.csv", "1,2,3,4\n5,6,7,8\n", with_experts(3)).message(),
               Catch::Contains("no 3 experts"));
    CountOptions options =
        with_layout(files.add("layout.json", R"({"physical_to_logical_map": [[0, 1, 1, 0], [1, 0, 1, 0]]})"));
    CHECK(values_of(files.read("decode_0.csv", "1,2,3,4\n5,6,7,8\n", options).tensor) ==
          std::vector<std::int64_t>{5, 5, 14, 12});
    CHECK(values_of(files.read("decode_1.csv", "3,4\n7,8\n", options).tensor) ==
          std::vector<std::int64_t>{4, 3, 8, 7});  // slots 2 and 3 of four
}

TEST_CASE("split MindIE tables are totals since the start, in the order of time") {
    const FileSet files;
    files.add("model_gen_config.json", config);
    const CountFile file = files.read("decode_0.csv", "1,2,3,4\n5,6,7,8\n2,4,3,9\n5,6,8,8\n3,4,3,9\n5,7,8,9\n");
    CHECK(file.tensor.shape == std::vector<std::int64_t>{3, 2, 4});
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8,  //
                                                              1, 2, 0, 5, 0, 0, 1, 0,  //
                                                              1, 0, 0, 0, 0, 1, 0, 1});
    REQUIRE(file.window);
    CHECK(file.window->sequence == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("a total that falls, and an iteration that is not whole, are told by their lines") {
    const FileSet files;
    files.add("model_gen_config.json", config);
    const Error falls = files.refused("decode_0.csv", "1,2,3,4\n5,6,7,8\n2,4,2,9\n5,6,8,8\n");
    CHECK_THAT(falls.where(), Catch::Contains("line 3, column 3"));
    CHECK_THAT(falls.message(), Catch::Contains("from 3 to 2") && Catch::Contains("iteration 1, layer 0"));
    const CountFile cut = files.read("decode_0.csv", "1,2,3,4\n5,6,7,8\n2,4,3,9\n");
    CHECK(cut.tensor.shape == std::vector<std::int64_t>{1, 2, 4});
    REQUIRE(finding_in(cut, "ROWS_CUT"));
    CHECK(finding_in(cut, "ROWS_CUT")->severity == Severity::warning);
    CHECK(finding_in(cut, "ROWS_CUT")->where == "line 3");
    CHECK(files.refused("decode_0.csv", "1,2,3,4\n").finding_code() == "TRUNCATED");
    CHECK(files.refused("decode_0.csv", "-1,2,3,4\n5,6,7,8\n2,4,3,9\n5,6,8,8\n").finding_code() == "MALFORMED");
}

TEST_CASE("MindIE's configuration is obeyed: shared ranks, the layout in force") {
    const FileSet files;
    files.add("model_gen_config.json", R"({"num_moe_layers": 1, "num_of_experts": 4,
        "enable_dangling_shared_expert": true, "num_dangling_shared_experts": 2})");
    CHECK(files.read("decode_3.csv", "1,2\n").window->rank == 1);  // ranks 0 and 1 hold shared experts only
    CHECK_THAT(files.refused("decode_1.csv", "1,2\n").message(), Catch::Contains("shared experts only"));

    files.add("model_gen_config.json",
              R"({"num_moe_layers": 1, "num_of_experts": 2, "eplb_expert_map_file": "/server/map.json"})");
    CHECK(files.refused("decode_0.csv", "1,2,3,4\n").finding_code() == "LAYOUT_NEEDED");
    files.add("map.json",
              R"({"moe_layer_count": 1, "layer_list": [{"device_list": [{"device_expert": [0, 1, 1, 0]}]}]})");
    CHECK(values_of(files.read("decode_0.csv", "1,2,3,4\n").tensor) == std::vector<std::int64_t>{5, 5});

    files.add("model_gen_config.json", R"({"num_moe_layers": 0})");
    CHECK_THAT(files.refused("decode_0.csv", "1,2,3,4\n").what(),
               Catch::Contains("model_gen_config.json") && Catch::Contains("num_moe_layers"));
    files.add("model_gen_config.json", "{");
    CHECK(files.refused("decode_0.csv", "1,2,3,4\n").finding_code() == "TRUNCATED");
}

TEST_CASE("experts of sampled tokens are not counts") {
    const FileSet files;
    CHECK(files.refused("decode_topk_0.csv", "1,2\n3,4\n", with_experts(4)).finding_code() == "NOT_A_COUNT_FILE");
}

TEST_CASE("omni-infer's positions of all ranks are one step") {
    const FileSet files;
    const CountFile file =
        files.read("activation_counts_recordstep_7_rank_0.txt", "1\t2\t3\t4\t\n5\t6\t7\t8\t\n", with_experts(4));
    CHECK(file.format == "omni-txt");
    CHECK(values_of(file.tensor) == one_to_8);
    CHECK(file.reduction == Reduction::reduced);
    REQUIRE(file.window);
    CHECK(file.window->sequence == std::vector<std::int64_t>{7});
    const CountFile share = files.read("activation_counts_recordstep_7_rank_1.txt", "1\t2\n3\t4\n", with_experts(4));
    CHECK(values_of(share.tensor) == std::vector<std::int64_t>{0, 0, 1, 2, 0, 0, 3, 4});
    CHECK(share.window->rank == 1);
    CHECK(files.refused("activation_counts_recordstep_7_rank_0.txt", "1\t2\t\n").finding_code() == "LAYOUT_NEEDED");
}

TEST_CASE("a line for each expert that was hit is read in any order, the others are zero") {
    const FileSet files;
    const CountFile file =
        files.read("expert_distribution_rank2_timestamp17.5.csv", "layer_id,expert_id,count\n2,1,5\n1,0,7\n1,2,9\n");
    CHECK(file.format == "sglang-csv");
    CHECK(file.tensor.shape == std::vector<std::int64_t>{1, 3, 3});
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{0, 0, 0, 7, 0, 9, 0, 5, 0});
    CHECK(file.reduction == Reduction::per_rank);
    CHECK(file.window->rank == 2);
    CHECK(finding_in(file, "EXPERTS_NOT_STATED"));
    CountOptions options = with_experts(4);
    options.layers = 4;
    const CountFile stated = files.read("x.csv", "layer,expert,count\r\n2,1,5\r\n", options);
    CHECK(stated.tensor.shape == std::vector<std::int64_t>{1, 4, 4});
    CHECK_FALSE(finding_in(stated, "EXPERTS_NOT_STATED"));
    CHECK_FALSE(stated.window);  // the name tells no rank
}

TEST_CASE("lines that contradict each other or the model are refused by their number") {
    const FileSet files;
    const std::string header = "layer_id,expert_id,count\n";
    const auto refused = [&](const std::string& lines, const CountOptions& options = {}) {
        return files.refused("x.csv", header + lines, options);
    };
    CHECK_THAT(refused("0,1,5\n0,1,5\n").what(), Catch::Contains("line 3") && Catch::Contains("twice"));
    CHECK_THAT(refused("0,1,5\n0,-1,5\n").what(), Catch::Contains("line 3") && Catch::Contains("-1"));
    CHECK(refused("4096,1,5\n").finding_code() == "BAD_GEOMETRY");
    CHECK(refused("0,65536,5\n").finding_code() == "BAD_GEOMETRY");
    CHECK(refused("0,4,5\n", with_experts(4)).finding_code() == "BAD_GEOMETRY");
    CHECK_THAT(refused("4095,65535,5\n").message(), Catch::Contains("268435456 counts"));  // 2 GiB from one line
    CHECK(refused("0,1,5.5\n").finding_code() == "MALFORMED");
    CHECK(refused("0,1\n").finding_code() == "MALFORMED");
    CHECK(refused("").finding_code() == "TRUNCATED");
    // What the values say is for the checks.
    CHECK_NOTHROW(files.read("x.csv", header + "0,1,-5\n"));
}

TEST_CASE("a last line that does not end is a warning") {
    const FileSet files;
    const CountFile file = files.read("decode_0.csv", "1,2\n3,4", with_experts(2));
    REQUIRE(finding_in(file, "LAST_LINE_OPEN"));
    CHECK(finding_in(file, "LAST_LINE_OPEN")->severity == Severity::warning);
    CHECK(finding_in(file, "LAST_LINE_OPEN")->where == "line 2");
    CHECK_FALSE(finding_in(files.read("decode_0.csv", "1,2\n3,4\n", with_experts(2)), "LAST_LINE_OPEN"));
}

TEST_CASE("text tables cut at any byte are refused or said to be cut") {
    const FileSet files;
    const std::string tables[] = {"11,12\n13,14\n", "11\t12\t\n13\t14\t\n", "layer,expert,count\n0,1,15\n1,0,16\n"};
    for (const std::string& table : tables) {
        for (std::size_t size = 1; size < table.size(); ++size) {
            CAPTURE(table, size);
            try {
                const CountFile file = files.read("decode_0.csv", table.substr(0, size), with_experts(2));
                const bool whole_lines = table[size - 1] == '\n';
                CHECK((whole_lines || finding_in(file, "LAST_LINE_OPEN")));
            } catch (const Error& error) {
                CHECK(error.code() == ErrorCode::input);
                CHECK_FALSE(error.finding_code().empty());
            }
        }
    }
}
