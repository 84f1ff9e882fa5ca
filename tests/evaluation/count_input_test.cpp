#include "evaluation/count_input.hpp"
#include "core/tensor_view.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"

using namespace eplb;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

// A folder of .npy files [record slots, 1 layer, 2 experts] that goes with the object.
class Files {
  public:
    Files() {
        std::string name = (fs::temp_directory_path() / "eplb-evaluation-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        folder_ = name;
    }
    ~Files() { fs::remove_all(folder_); }
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

    std::string add(const std::string& name, const std::vector<std::int32_t>& values) {
        const std::vector<std::byte> bytes =
            encode_counts("npy", view_of(values, {static_cast<std::int64_t>(values.size() / 2), 1, 2}));
        const std::string path = folder_ / name;
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        return path;
    }

  private:
    fs::path folder_;
};

std::vector<std::int64_t> row_of(const Counts& counts, int slot) {
    std::vector<std::int64_t> row(2);
    counts.read_row(slot, 0, row);
    return row;
}

CountOptions options_for(std::vector<std::string> files, Reduction reduction) {
    CountOptions options;
    options.files = std::move(files);
    options.reduction = reduction;
    return options;
}

}  // namespace

TEST_CASE("a record slot that repeats another, in whatever file, is on the same side of the split") {
    Files files;
    const auto first = files.add("a.npy", {1, 2, 0, 0, 3, 4, 1, 2}), second = files.add("b.npy", {3, 4, 5, 6, 7, 8});
    const CountInput input = load_counts(options_for({first, second}, Reduction::reduced), 1);
    CHECK(input.filled == std::vector{0, 2, 3, 4, 5, 6});
    CHECK(input.first_equal == std::vector{0, 1, 0, 1, 4, 5});  // 3 repeats 0, 4 repeats 2
    const RecordSplit split = split_counts(input, Holdout::interleave);
    CHECK(split.fit == std::vector{0, 3, 5});
    CHECK(split.holdout == std::vector{2, 4, 6});
}

TEST_CASE("windows of one deployment follow one another in command-line order") {
    Files files;
    const auto first = files.add("b.npy", {1, 2, 0, 0}), second = files.add("a.npy", {3, 4});
    const CountInput input = load_counts(options_for({first, second}, Reduction::reduced), 1);
    CHECK(input.counts.record_slots() == 3);
    CHECK(input.slot_in_counts == std::vector<std::vector<int>>{{0, 1}, {2}});
    CHECK(input.filled == std::vector{0, 2});
    CHECK(row_of(input.counts, 2) == std::vector<std::int64_t>{3, 4});
    CHECK_FALSE(input.summed_over_files);
}

TEST_CASE("the ranks of one window are summed") {
    Files files;
    const auto first = files.add("0.npy", {1, 2, 3, 4}), second = files.add("1.npy", {10, 20, 30, 40});
    const CountInput input = load_counts(options_for({first, second}, Reduction::per_rank), 1);
    CHECK(input.counts.record_slots() == 2);
    CHECK(row_of(input.counts, 0) == std::vector<std::int64_t>{11, 22});
    CHECK(row_of(input.counts, 1) == std::vector<std::int64_t>{33, 44});
    CHECK(input.slot_in_counts == std::vector<std::vector<int>>{{0, 1}, {0, 1}});
    CHECK(input.filled == std::vector{0, 1});
    CHECK(input.summed_over_files);
}

TEST_CASE("a record slot is filled when any rank has counts in it") {
    Files files;
    const auto first = files.add("0.npy", {1, 2, 0, 0, 0, 0}), second = files.add("1.npy", {0, 0, 0, 0, 5, 6});
    CHECK(load_counts(options_for({first, second}, Reduction::per_rank), 1).filled == std::vector{0, 2});
}

TEST_CASE("ranks of one window with other record slots are refused by name") {
    Files files;
    const auto first = files.add("0.npy", {1, 2, 3, 4}), second = files.add("1.npy", {10, 20});
    CHECK_THROWS_WITH(load_counts(options_for({first, second}, Reduction::per_rank), 1),
                      Contains("1.npy: FILES_DISAGREE: 2 and 1 record slots") && Contains("the same record slots"));
}

TEST_CASE("several files that do not say what they are, are refused; one is taken as summed") {
    Files files;
    const auto first = files.add("0.npy", {1, 2}), second = files.add("1.npy", {10, 20});
    CHECK_THROWS_WITH(load_counts(options_for({first, second}, Reduction::unknown), 1),
                      Contains("REDUCTION_NOT_STATED"));
    CHECK(load_counts(options_for({first}, Reduction::unknown), 1).counts.record_slots() == 1);
}

TEST_CASE("an error finding ends the load and counts its company") {
    Files files;
    CHECK_THROWS_WITH(load_counts(options_for({files.add("zero.npy", {0, 0})}, Reduction::reduced), 1),
                      Contains("zero.npy: EMPTY_COUNTS"));
    CHECK_THROWS_AS(load_counts({}, 1), Error);
}
