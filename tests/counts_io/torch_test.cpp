// Both readers on files that a real PyTorch wrote. Built only where libtorch and a Python with torch are.
#ifdef EPLB_TORCH_PYTHON
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "core/tensor_view.hpp"
#include "counts_io/libtorch_reader.hpp"
#include "decode.hpp"
#include "files/temporary_folder.hpp"
#include "test_paths.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

std::vector<std::string> made_files(const TemporaryFolder& folder, std::string_view prefix) {
    std::vector<std::string> paths;
    for (const std::string& name : folder.names()) {
        if (name.starts_with(prefix)) paths.push_back(folder.file(name));
    }
    return paths;
}

void make_files(const TemporaryFolder& folder) {
    const std::string command =
        std::string(EPLB_TORCH_PYTHON " -B " EPLB_SOURCE_DIR "/tests/counts_io/make_torch_files.py ") +
        folder.path().string();
    REQUIRE(std::system(command.c_str()) == 0);
}

std::shared_ptr<const MappedFile> memory_file(const std::string& bytes) {
    return MappedFile::copy_of("x.pt", std::as_bytes(std::span(bytes)));
}

}  // namespace

TEST_CASE("the native reader gives 1 to 24 for every file that PyTorch saves of them, and refuses the others by name") {
    const TemporaryFolder folder;
    make_files(folder);
    std::vector<std::int64_t> wanted(24);
    std::iota(wanted.begin(), wanted.end(), 1);
    CHECK(made_files(folder, "good-").size() == 24);
    for (const std::string& path : made_files(folder, "good-")) {
        CAPTURE(path);
        const CountFile file = read_count_file(path, {});
        CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 3, 4});
        CHECK(values_of(file.tensor) == wanted);
        CHECK(file.saved_on == (path.find("npu") == std::string::npos ? "cpu" : "npu:0"));
    }
    const auto code = [&](const std::string& name) {
        return error_of([&] { read_count_file(folder.file(name), {}); }).finding_code();
    };
    CHECK(code("bad-legacy.pt") == "LEGACY_FORMAT");
    CHECK(code("bad-sparse.pt") == "UNKNOWN_GLOBAL");
    CHECK(code("bad-complex.pt") == "UNKNOWN_GLOBAL");
    CHECK(code("bad-quantized.pt") == "UNKNOWN_GLOBAL");
    CHECK(code("bad-module.pt") == "UNKNOWN_GLOBAL");
    CHECK(code("bad-script.pt") == "NOT_A_COUNT_FILE");

    // libtorch agrees wherever it reads a file at all.
    int agreed = 0, impossible = 0;
    for (const std::string& path : made_files(folder, "good-")) {
        CAPTURE(path);
        const std::optional<Finding> finding = cross_check_with_libtorch(read_count_file(path, {}), {});
        agreed += !finding;
        if (finding) {
            CHECK(finding->code == "CROSS_CHECK_NOT_POSSIBLE");
            CHECK(finding->severity == Severity::info);
            ++impossible;
        }
        if (path.find("npu") != std::string::npos) CHECK(finding);
    }
    CHECK(agreed >= 12);
    CHECK(impossible >= 2);
}

TEST_CASE("the libtorch reader gives the same counts as the native one") {
    const std::vector<std::int32_t> values = {1, 2, 3, 4, 5, 6};
    const std::vector<std::byte> bytes = encode_counts("pt", view_of(values, {1, 2, 3}));
    CountOptions options;
    options.pt_reader = PtReader::libtorch;
    const CountFile file = decode_count_file(MappedFile::copy_of("x.pt", bytes), options);
    CHECK(values_of(file.tensor) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
    CHECK(file.tensor.shape == std::vector<std::int64_t>{1, 2, 3});
    CHECK(file.reduction == Reduction::reduced);
    CHECK(error_of([&] {
              decode_count_file(memory_file(torch_file(pickle(global("os", "system")), "")), options);
          }).finding_code() == "MALFORMED");
}

TEST_CASE("the cross-check names the first value or the shape that differs") {
    const std::vector<std::int32_t> first = {1, 2, 3, 4, 5, 6}, second = {1, 2, 3, 4, 9, 6};
    CountFile file = decode_count_file(MappedFile::copy_of("x.pt", encode_counts("pt", view_of(first, {1, 2, 3}))), {});
    CHECK_FALSE(cross_check_with_libtorch(file, {}));
    file.source = MappedFile::copy_of("x.pt", encode_counts("pt", view_of(second, {1, 2, 3})));
    std::optional<Finding> finding = cross_check_with_libtorch(file, {});
    REQUIRE(finding);
    CHECK(finding->code == "CROSS_CHECK_DIFFERS");
    CHECK(finding->severity == Severity::error);
    CHECK(finding->where == "record slot 0, layer 1, expert 1");
    file.source = MappedFile::copy_of("x.pt", encode_counts("pt", view_of(first, {1, 3, 2})));
    finding = cross_check_with_libtorch(file, {});
    REQUIRE(finding);
    CHECK(finding->code == "CROSS_CHECK_DIFFERS");
    file.format = "npy";
    CHECK(cross_check_with_libtorch(file, {})->code == "CROSS_CHECK_NOT_POSSIBLE");
}

TEST_CASE("a file that kills libtorch does not kill the program") {
    TensorSpec hostile = TensorSpec::of({2, 3, 4});
    hostile.offset = std::int64_t{1} << 40;  // libtorch reads a terabyte beyond the storage
    const std::string bytes = torch_file(pickle(recorder_dict(hostile.opcodes())), std::string(96, '\1'));
    CountFile file =
        decode(torch_file(pickle(recorder_dict(TensorSpec::of({2, 3, 4}).opcodes())), std::string(96, '\1')));
    file.source = memory_file(bytes);
    const std::optional<Finding> finding = cross_check_with_libtorch(file, {});
    REQUIRE(finding);
    CHECK(finding->code == "CROSS_CHECK_NOT_POSSIBLE");
    CountOptions options;
    options.pt_reader = PtReader::libtorch;
    CHECK(error_of([&] { decode(bytes, options); }).code() == ErrorCode::input);
}
#endif
