// Traffic of several windows.
#include <catch2/catch.hpp>

#include "check/variation.hpp"
#include "samples.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

// 8 passes of 2 layers and 4 experts, 100 counts a layer, `hot` of them on expert 0.
Sample with_hot(std::int64_t hot, std::int64_t scale = 1) {
    Sample sample(8, 2, 4);
    for (int s = 0; s < 8; ++s) {
        for (int l = 0; l < 2; ++l) {
            sample.at(s, l, 0) = hot * scale;
            sample.at(s, l, 1) = (100 - hot) * scale - 20 - s;
            sample.at(s, l, 2) = 10 + s;
            sample.at(s, l, 3) = 10;
        }
    }
    return sample;
}

CountReport report_of(const std::string& path, const Sample& sample) {
    CountOptions options;
    options.files = {"a.pt", "b.pt"};
    return check_counts(path, sample.tensor(), Reduction::reduced, options);
}

std::vector<Finding> together(const CountReport& a, const CountReport& b) {
    return check_counts_together(std::vector{a, b}, {});
}

}  // namespace

TEST_CASE("files whose traffic sits on other experts differ, from a fifth of it on") {
    // Scale 1000: no noise to speak of. `hot` percent on expert 0, the rest on expert 1 but for at most 0.04 percent.
    const auto finding = [](std::int64_t hot) {
        return find(together(report_of("a.pt", with_hot(40, 1000)), report_of("b.pt", with_hot(hot, 1000))),
                    "FILES_DIFFER");
    };
    CHECK(finding(59).code.empty());
    CHECK(finding(61).severity == Severity::warning);
    CHECK(finding(61).where == "a.pt and b.pt");
    CHECK_THAT(finding(61).message, Contains("21.0 % of the traffic sits on other experts in the second file"));
}

TEST_CASE("a difference within three times the noise is none") {
    // One pass of 10 counts: shares of .6 and .4 against .3 and .7, total variation .3. With both together at .45 the
    // noise is .798 sqrt(.45 * .55 * 2 / 10) = .178.
    const auto finding = [](std::int64_t scale) {
        Sample a(1, 1, 2), b(1, 1, 2);
        a.values = {6 * scale, 4 * scale};
        b.values = {3 * scale, 7 * scale};
        return find(together(report_of("a.pt", a), report_of("b.pt", b)), "FILES_DIFFER");
    };
    CHECK(finding(1).code.empty());
    CHECK(finding(3).code.empty());        // .178 / sqrt(3) = .1025: .3 is less than 3 times that
    CHECK_FALSE(finding(4).code.empty());  // .0888
}

TEST_CASE("record slots that differ among themselves as much as the files do are noise") {
    Sample restless = with_hot(40, 1000);
    for (int s = 0; s < 8; s += 2) {
        for (int l = 0; l < 2; ++l) std::swap(restless.at(s, l, 0), restless.at(s, l, 3));
    }
    const CountReport a = report_of("a.pt", restless), b = report_of("b.pt", with_hot(61, 1000));
    CHECK(a.alternate_variation > 0.3);
    CHECK(find(together(a, b), "FILES_DIFFER").code.empty());
}
