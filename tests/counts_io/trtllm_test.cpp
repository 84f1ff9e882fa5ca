// TensorRT-LLM's expert statistics in safetensors files.
#include <catch2/catch.hpp>

#include "decode.hpp"
#include "file_set.hpp"
#include "files/safetensors.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

struct Piece {
    std::string name;
    std::vector<std::int32_t> values;
    std::vector<std::int64_t> shape = {};
};

std::string safetensors(const std::vector<Piece>& pieces, const std::string& dtype = "I32") {
    std::vector<SafetensorsEntry> entries;
    std::string data;
    for (const Piece& piece : pieces) {
        std::vector<std::int64_t> shape = piece.shape;
        if (shape.empty()) shape = {static_cast<std::int64_t>(piece.values.size())};
        entries.push_back({piece.name, dtype, shape, 0, 0});
        data += raw_bytes(piece.values);
    }
    place_back_to_back(entries);
    return encode_safetensors_header(entries, {}) + data;
}

}  // namespace

TEST_CASE("a rank's iterations are record slots in their order, rows are the model's layers") {
    const FileSet files;
    files.add("meta_info.json", R"({"num_experts": 2, "num_experts_per_token": 1})");
    const CountFile file = files.read(
        "rank3.safetensors", safetensors({{"10_1", {1, 2}}, {"10_3", {3, 4}}, {"9_3", {7, 8}}, {"9_1", {5, 6}}}));
    CHECK(file.format == "trtllm");
    CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 4, 2});
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{0, 0, 5, 6, 0, 0, 7, 8, 0, 0, 1, 2, 0, 0, 3, 4});
    CHECK(file.reduction == Reduction::per_rank);
    REQUIRE(file.window);
    CHECK(file.window->rank == 3);
    CHECK(file.window->sequence == std::vector<std::int64_t>{9, 10});
    CountOptions options;
    options.layers = 5;
    CHECK(files.read("rank3.safetensors", safetensors({{"0_1", {1, 2}}}), options).tensor.shape[1] == 5);
}

TEST_CASE("statistics that contradict themselves or their meta file are refused by the tensor") {
    const FileSet files;
    const auto refused = [&](const std::vector<Piece>& pieces) {
        return files.refused("rank0.safetensors", safetensors(pieces));
    };
    CHECK_THAT(refused({{"0_1", {1, 2}}, {"0_2", {1, 2}}, {"1_1", {1, 2}}}).what(),
               Catch::Contains("1_2") && Catch::Contains("missing"));
    CHECK_THAT(refused({{"0_1", {1, 2}}, {"0_2", {1, 2, 3}}}).what(), Catch::Contains("0_2"));
    CHECK_THAT(refused({{"0_1", {1, 2, 3, 4}, {2, 2}}}).message(), Catch::Contains("co-occurrence"));
    CHECK(refused({{"model.weight", {1, 2}}}).finding_code() == "NOT_A_COUNT_FILE");
    CHECK(refused({{"0_4096", {1, 2}}}).finding_code() == "NOT_A_COUNT_FILE");
    CHECK(refused({{"-1_1", {1, 2}}}).finding_code() == "NOT_A_COUNT_FILE");
    CHECK(refused({{"0_1", {}}}).finding_code() == "BAD_GEOMETRY");
    CHECK(refused({}).finding_code() == "NOT_A_COUNT_FILE");
    CHECK(files.refused("rank0.safetensors", safetensors({{"0_1", {1, 2}}}, "F32")).finding_code() ==
          "UNSUPPORTED_TYPE");
    // Two names of one iteration and layer: 0_1 and 00_1.
    CHECK_THAT(refused({{"0_1", {1, 2}}, {"00_1", {3, 4}}}).message(), Catch::Contains("twice"));
    files.add("meta_info.json", R"({"num_experts": 3})");
    CHECK_THAT(refused({{"0_1", {1, 2}}}).message(), Catch::Contains("counts 2 experts") && Catch::Contains("says 3"));
}

TEST_CASE("a large layer number does not make a tensor of zeros") {
    const FileSet files;
    const std::vector<std::int32_t> row(4096, 1);
    CHECK_NOTHROW(files.read("rank0.safetensors", safetensors({{"0_1023", row}})));  // 32 MiB
    CHECK(files.refused("rank0.safetensors", safetensors({{"0_1024", row}})).finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("statistics cut at any byte are refused") {
    const FileSet files;
    const std::string whole = safetensors({{"0_1", {1, 2}}, {"0_2", {3, 4}}});
    for (std::size_t size = 1; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK_FALSE(files.refused("rank0.safetensors", whole.substr(0, size)).finding_code().empty());
    }
}
