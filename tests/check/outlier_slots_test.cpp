// Record slots unlike the others, found by their concentration and their share of the counts.
#include <catch2/catch.hpp>

#include "samples.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

// 10 record slots of one layer; the first has `first` on its leading experts, the others `usual` on all, and one more
// in a place of their own, so that all differ.
Sample with_first(const std::vector<std::int64_t>& first, std::int64_t usual, int experts = 8) {
    Sample sample(10, 1, experts);
    for (int slot = 1; slot < 10; ++slot) {
        for (int expert = 0; expert < experts; ++expert) sample.at(slot, 0, expert) = usual;
        ++sample.at(slot, 0, slot % experts);
    }
    for (std::size_t expert = 0; expert < first.size(); ++expert)
        sample.at(0, 0, static_cast<int>(expert)) = first[expert];
    return sample;
}

Finding outlier(const Sample& sample) {
    return find(check_sample(sample).findings, "OUTLIER_RECORD_SLOTS");
}

}  // namespace

TEST_CASE("a pass on two of eight experts is unlike passes on all, one on three is not") {
    // On k of 8 equal experts the distance is (1/k - 2/8 + 1/8) * 8 = 8/k - 1.
    const Finding two = outlier(with_first({400, 400}, 100));
    CHECK(two.severity == Severity::warning);
    CHECK(two.where == "record slots 0");
    CHECK_THAT(two.message, Contains("1 record slot with 10.0 % of the counts is unlike the others: as concentrated as "
                                     "2.0 equally busy experts where the others are as 8.0 (distance 3.0"));
    CHECK_THAT(two.hint, Contains("--drop-slots 0"));
    CHECK(outlier(with_first({267, 267, 266}, 100)).code.empty());
}

TEST_CASE("an unlike pass of one of several files is dropped under the name of the file") {
    const Sample sample = with_first({400, 400}, 100);
    CountOptions options;
    options.files = {"a.pt", "run/b.pt"};
    const auto report = check_counts("run/b.pt", sample.tensor(), Reduction::reduced, options);
    CHECK_THAT(find(report.findings, "OUTLIER_RECORD_SLOTS").hint, Contains("--drop-slots b.pt:0"));
}

TEST_CASE("an unlike pass matters from 2 % of the counts") {
    // The others have 9 x 801 = 7209: 148 are 2.01 % of all, 146 are 1.98 %.
    CHECK(outlier(with_first({74, 74}, 100)).code == "OUTLIER_RECORD_SLOTS");
    CHECK(outlier(with_first({73, 73}, 100)).code.empty());
}

TEST_CASE("a few assignments that fall together are chance") {
    CHECK(outlier(with_first({5, 5}, 2)).code == "OUTLIER_RECORD_SLOTS");  // 2 x 5 x 4 = 40 ordered pairs
    CHECK(outlier(with_first({5, 4}, 2)).code.empty());                    // 20 + 12
}

TEST_CASE("where passes differ much from one another, an unlike one must be further away") {
    // Passes on either half of 16 experts are at a distance of about 1; on one expert it is 15, on three 16/3 - 1.
    const auto halves = [](const std::vector<std::int64_t>& first) {
        Sample sample(11, 1, 16);
        for (int slot = 1; slot < 11; ++slot) {
            for (int expert = 0; expert < 8; ++expert) sample.at(slot, 0, expert + 8 * (slot % 2)) = 100 + slot;
        }
        for (std::size_t expert = 0; expert < first.size(); ++expert) {
            sample.at(0, 0, static_cast<int>(expert)) = first[expert];
        }
        return sample;
    };
    CHECK(outlier(halves({800})).code == "OUTLIER_RECORD_SLOTS");
    CHECK(outlier(halves({267, 267, 266})).code.empty());
}

TEST_CASE("a heavy pass on the experts of all others is like them, and so is a small one") {
    CHECK(outlier(with_first(std::vector<std::int64_t>(8, 5000), 100)).code.empty());
    CHECK(outlier(with_first(std::vector<std::int64_t>(8, 1), 100)).code.empty());
}

TEST_CASE("the usual distance needs five distinct passes") {
    Sample sample = with_first({400, 400}, 100);
    std::copy_n(sample.values.begin() + 4 * 8, 8, sample.values.begin() + 5 * 8);
    std::fill(sample.values.begin() + 6 * 8, sample.values.end(), 0);
    CHECK(outlier(sample).code == "OUTLIER_RECORD_SLOTS");  // slots 0-4, and 5 = 4
    std::copy_n(sample.values.begin() + 3 * 8, 8, sample.values.begin() + 4 * 8);
    std::copy_n(sample.values.begin() + 3 * 8, 8, sample.values.begin() + 5 * 8);
    CHECK(outlier(sample).code.empty());  // slots 0-3, and 4 = 5 = 3
}
