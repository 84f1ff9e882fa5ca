// A search that quietly stops searching still gives legal layouts. So the bytes of a set of fits are pinned, each with
// the figures that the judge gives it. Who changes a line on purpose writes the file anew and shows, in the same
// commit, figures that are no worse:
//   build/dev/tests/portability/fit_bytes > tests/fit/pinned_fits.txt
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <test_paths.hpp>

#include "fit/pinned_cases.hpp"

using namespace eplb;

namespace {

std::map<std::string, std::string> pinned_lines() {
    std::ifstream file(EPLB_SOURCE_DIR "/tests/fit/pinned_fits.txt");
    std::map<std::string, std::string> lines;
    for (std::string line; std::getline(file, line);) lines[line.substr(0, line.find(' '))] = line;
    return lines;
}

}  // namespace

TEST_CASE("every pinned fit gives its bytes and reaches its figures") {
    auto pinned = pinned_lines();
    for (const test::PinnedCase& one : test::pinned_cases()) {
        INFO(one.name);
        CHECK(test::line_of(one, one.fit()) == pinned[one.name]);
        pinned.erase(one.name);
    }
    CHECK(pinned.empty());  // nothing is pinned that is no longer fitted
}

TEST_CASE("on ordinary pinned shapes the search is no worse than the published recipes for its own objective") {
    struct Figures {
        double step = 0, window = 0;
    };
    std::map<std::string, Figures> of;
    for (const auto& [name, line] : pinned_lines()) {
        std::istringstream words(line);
        std::string word;
        Figures& figures = of[name];
        for (int i = 0; i < 3; ++i) words >> word;
        words >> figures.step >> figures.window;
    }
    for (const std::string shape : {"8x9-64-topics", "33x2-60-topics", "6x6-30-sparse"}) {
        for (const std::string recipe : {"deepseek", "greedy-swap", "random", "trivial"}) {
            INFO(shape << ", " << recipe);
            // what the search gives away of the totals, to hold up on other record slots
            CHECK(of.at(shape + ":search-window").window <= 1.001 * of.at(shape + ":" + recipe + "-window").window);
        }
        CHECK(of.at(shape + ":search-step").step <= of.at(shape + ":search-window").step);
    }
}
