// What holds of a window only is looked at in the sum over its ranks; what holds of every file is looked at in each.
#include "evaluation/count_set.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "core/tensor_view.hpp"
#include "counts_io/window_sidecar.hpp"
#include "evaluation/count_input.hpp"
#include "files/digest.hpp"
#include "files/error_of.hpp"
#include "files/temporary_folder.hpp"

using namespace eplb;

namespace {

constexpr std::int64_t layers = 2, experts = 4;

// Files [record slots, 2 layers, 4 experts] of a folder; `options` names them.
struct Ranks {
    TemporaryFolder folder;
    CountOptions options;

    Ranks() { options.reduction = Reduction::per_rank; }

    std::string add(const std::string& name, const std::vector<std::int64_t>& values) {
        const auto slots = static_cast<std::int64_t>(values.size()) / (layers * experts);
        options.files.push_back(folder.write(name, encode_counts("npy", view_of(values, {slots, layers, experts}))));
        return options.files.back();
    }
    // The last file gets a sidecar: the share of `rank` of `ranks`, its passes from `first` on.
    void with_sidecar(int rank, int ranks, std::int64_t first) {
        const CountFile file = read_count_file(options.files.back(), {});
        WindowSidecar sidecar;
        sidecar.file = "Y.npy";
        sidecar.sha256 = file.sha256;
        sidecar.reduction = Reduction::per_rank;
        for (int member = 0; member < ranks; ++member) sidecar.members.push_back(member);
        sidecar.rank = rank;
        sidecar.shape = file.tensor.shape;
        sidecar.first_sequence = first;
        sidecar.records = static_cast<int>(file.tensor.shape[0]);
        const auto records = static_cast<std::size_t>(sidecar.records);
        sidecar.tokens.assign(records, 1);
        sidecar.phases.assign(records, "decode");
        sidecar.layouts = {std::string(64, 'a')};
        sidecar.layout_of_record.assign(records, 0);
        const std::string path = window_sidecar_path(options.files.back());
        folder.write(path.substr(path.rfind('/') + 1), encode_window_sidecar(sidecar));
    }
    CheckedSet check() const { return check_count_files(options, 2); }
};

bool has(const std::vector<Finding>& findings, std::string_view code) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.code == code; });
}

// Two passes of two ranks that count what they received: rank 0 holds experts 0 and 1. Layers sum to 20 and 8 together.
const std::vector<std::int64_t> left{9, 1, 0, 0, 3, 2, 0, 0, 4, 1, 0, 0, 1, 2, 0, 0};
const std::vector<std::int64_t> right{0, 0, 5, 5, 0, 0, 7, 8, 0, 0, 2, 1, 0, 0, 4, 1};

}  // namespace

TEST_CASE("ranks that count what they received are judged by their sum, not one by one") {
    Ranks ranks;
    ranks.add("0.npy", left);
    ranks.add("1.npy", right);
    const CheckedSet set = ranks.check();
    REQUIRE(set.sum);
    CHECK(set.sum->report.statistics->total == 56);
    CHECK(set.sum->report.statistics->row_totals == std::vector<std::int64_t>{20, 20, 8, 8});
    CHECK_FALSE(any_at_least(set.findings, Severity::warning));
    for (const CheckedFile& file : set.files) CHECK_FALSE(any_at_least(file.findings, Severity::warning));
    CHECK(load_counts(ranks.options, 1).summed_over_files);
}

TEST_CASE("one count too many on one rank breaks the sum, and the place is in the sum") {
    Ranks ranks;
    ranks.add("0.npy", left);
    auto more = right;
    ++more[7];
    ranks.add("1.npy", more);
    const CheckedSet set = ranks.check();
    REQUIRE(has(set.findings, "LAYER_TOTAL_MISMATCH"));
    CHECK_THAT(set.findings.front().where, Catch::Contains("sum of 2 files, layers"));
    CHECK_THROWS_WITH(load_counts(ranks.options, 1), Catch::Contains("LAYER_TOTAL_MISMATCH"));
}

TEST_CASE("values are checked in each file, and without sound files there is no sum") {
    Ranks ranks;
    ranks.add("0.npy", left);
    auto negative = right;
    negative[2] = -5;
    ranks.add("1.npy", negative);
    const CheckedSet set = ranks.check();
    CHECK_FALSE(set.sum);
    CHECK(has(set.files[1].findings, "NEGATIVE_COUNT"));
    CHECK_FALSE(has(set.findings, "LAYER_TOTAL_MISMATCH"));
}

TEST_CASE("an incomplete set is not summed and not judged by what only a sum can show") {
    Ranks ranks;
    ranks.add("0.npy", left);
    ranks.add("1.npy", right);
    ranks.options.recorded_ranks = 3;
    const CheckedSet set = ranks.check();
    CHECK_FALSE(set.sum);
    CHECK(has(set.findings, "RANKS_INCOMPLETE"));
    CHECK_FALSE(has(set.findings, "LAYER_TOTAL_MISMATCH"));
    CHECK_THROWS_WITH(load_counts(ranks.options, 1), Catch::Contains("RANKS_INCOMPLETE"));
}

TEST_CASE("a part of the ranks' blocks is told by the experts that the sum lacks, where nobody states the ranks") {
    Ranks ranks;
    ranks.add("0.npy", {9, 0, 0, 0, 9, 0, 0, 0});
    ranks.add("1.npy", {0, 9, 0, 0, 0, 9, 0, 0});
    CHECK_FALSE(has(ranks.check().findings, "NOT_REDUCED"));  // a block of 2 experts may be a skewed router
    ranks.options.recorded_ranks = 2;
    CHECK_FALSE(has(ranks.check().findings, "NOT_REDUCED"));
}

TEST_CASE("a rank that counted nothing is a warning; all of them are an empty window") {
    Ranks ranks;
    ranks.add("0.npy", {9, 1, 5, 5, 3, 2, 7, 8});
    ranks.add("1.npy", {0, 0, 0, 0, 0, 0, 0, 0});
    CHECK(has(ranks.check().findings, "EMPTY_RANK"));
    CHECK(ranks.check().sum->report.statistics->total == 40);
    CHECK_FALSE(any_at_least(ranks.check().findings, Severity::error));

    Ranks idle;
    idle.add("0.npy", {0, 0, 0, 0, 0, 0, 0, 0});
    idle.add("1.npy", {0, 0, 0, 0, 0, 0, 0, 0});
    CHECK(has(idle.check().findings, "EMPTY_COUNTS"));
    CHECK_FALSE(has(idle.check().findings, "IDENTICAL_FILES"));
}

TEST_CASE("ranks that stopped a pass earlier are summed over the passes that all have, and the others are counted") {
    Ranks ranks;
    ranks.add("0.npy", left);
    ranks.with_sidecar(0, 2, 5);
    ranks.add("1.npy", {right.begin() + layers * experts, right.end()});
    ranks.with_sidecar(1, 2, 6);
    const CheckedSet set = ranks.check();
    REQUIRE(set.sum);
    CHECK(set.sum->report.statistics->row_totals == std::vector<std::int64_t>{8, 8});
    REQUIRE(has(set.findings, "PASSES_LEFT_OUT"));
    CHECK(set.findings.front().severity == Severity::warning);
    CHECK_THAT(set.findings.front().message, Catch::Contains("are used: 1; ") && Catch::Contains("1 of rank 0"));
    const CountInput input = load_counts(ranks.options, 1);
    CHECK(input.counts.record_slots() == 1);
    CHECK(input.slot_in_counts == std::vector<std::vector<int>>{{-1, 0}, {0}});
    CHECK(split_counts(input, Holdout::last).fit == std::vector{0});
}

TEST_CASE("ranks without a pass in common are of other windows") {
    Ranks ranks;
    ranks.add("0.npy", left);
    ranks.with_sidecar(0, 2, 5);
    ranks.add("1.npy", right);
    ranks.with_sidecar(1, 2, 7);
    CHECK(has(ranks.check().findings, "FOREIGN_RANK"));
    CHECK_FALSE(ranks.check().sum);
}

TEST_CASE("a lone share is a window only where one rank counted") {
    Ranks ranks;
    ranks.add("0.npy", left);
    CHECK_FALSE(ranks.check().sum);
    CHECK(has(ranks.check().files[0].findings, "PER_RANK_COUNTS"));
    ranks.options.recorded_ranks = 1;
    REQUIRE(ranks.check().sum);
    CHECK_FALSE(has(ranks.check().files[0].findings, "PER_RANK_COUNTS"));
    CHECK(has(ranks.check().findings, "LAYER_TOTAL_MISMATCH"));
}

TEST_CASE("the total is expected of the sum, and the sample counts the passes of the sum") {
    Ranks ranks;
    ranks.add("0.npy", left);
    ranks.add("1.npy", right);
    ranks.options.expect_total = 56;
    CHECK_FALSE(has(ranks.check().findings, "UNEXPECTED_TOTAL"));
    CHECK(has(ranks.check().findings, "SMALL_SAMPLE"));
    ranks.options.expect_total = 57;
    CHECK(has(ranks.check().findings, "UNEXPECTED_TOTAL"));
}

TEST_CASE("a sum above 2^63 - 1 is told, not wrapped") {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    Ranks ranks;
    ranks.add("0.npy", {most, 0, 0, 0, 0, 0, 0, 0});
    ranks.add("1.npy", {1, 0, 0, 0, 0, 0, 0, 0});
    CHECK(has(ranks.check().findings, "SUM_TOO_LARGE"));  // of one value
    Ranks total;
    total.add("0.npy", {most, 0, 0, 0, 0, 0, 0, 0});
    total.add("1.npy", {0, 1, 0, 0, 0, 0, 0, 0});
    CHECK(has(total.check().findings, "SUM_TOO_LARGE"));  // of the whole window
}

TEST_CASE("windows are judged one by one, and one rank's share does not go with them") {
    Ranks windows;
    windows.options.reduction = Reduction::reduced;
    windows.add("a.npy", left);
    windows.add("b.npy", right);
    const CheckedSet set = windows.check();
    CHECK_FALSE(set.sum);
    CHECK(has(set.files[0].findings, "LAYER_TOTAL_MISMATCH"));

    Ranks mixed;
    mixed.options.reduction = Reduction::reduced;
    mixed.add("a.npy", left);
    mixed.add("b.npy", right);
    mixed.with_sidecar(0, 1, 0);
    CHECK(has(mixed.check().findings, "REDUCTION_CONFLICT"));
}

TEST_CASE("a file that cannot be decoded is told beside the others") {
    Ranks ranks;
    ranks.add("0.npy", left);
    ranks.options.files.push_back(ranks.folder.write("1.npy", std::string_view("no counts")));
    const CheckedSet set = ranks.check();
    CHECK(set.files[1].undecodable);
    CHECK(set.files[1].sha256);
    CHECK_FALSE(set.sum);
    CHECK_THROWS_WITH(load_counts(ranks.options, 1), Catch::Contains("1.npy"));
}
