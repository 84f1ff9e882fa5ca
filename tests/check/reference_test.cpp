// g++ 12 with sanitizers takes a state of <regex> for uninitialised, where it is not.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// docs/reference.md and the code name the same finding codes.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "check/count_check.hpp"
#include "check/counts.hpp"
#include "check/layout.hpp"
#include "counts_io/count_file.hpp"
#include "test_paths.hpp"

using namespace eplb;

namespace {

std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path);
    REQUIRE(in);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
    const std::regex regex(pattern);
    std::set<std::string> found;
    for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
        found.insert((*match)[1]);
    }
    return found;
}

std::set<std::string> documented() {
    return matches(text_of(std::filesystem::path(EPLB_SOURCE_DIR) / "docs/reference.md"), R"(\n\| `([A-Z0-9_]+)` \|)");
}

}  // namespace

TEST_CASE("the reference page has every code of the tables of checks") {
    const std::set<std::string> page = documented();
    std::vector<std::string_view> codes = layout_codes();
    for (const CountCode& code : count_codes()) codes.push_back(code.name);
    for (const std::string_view code : codes) {
        CAPTURE(code);
        CHECK(page.count(std::string(code)) == 1);
    }
}

TEST_CASE("the reference page and the sources of readers, checks and eplb-validate name the same codes") {
    std::set<std::string> used;
    for (const char* folder : {"lib/check", "lib/counts_io", "lib/layout_io", "lib/files", "apps/eplb-validate"}) {
        for (const auto& entry :
             std::filesystem::recursive_directory_iterator(std::filesystem::path(EPLB_SOURCE_DIR) / folder)) {
            if (entry.path().extension() != ".cpp") continue;
            // A code is an upper-case literal of several words, or of one word that is thrown or built as a finding.
            const std::string text = text_of(entry.path());
            used.merge(matches(text, R"re("([A-Z][A-Z0-9]+(_[A-Z0-9]+)+)")re"));
            used.merge(matches(text, R"re((?:as_finding|fail)\(\s*"([A-Z]+)")re"));
            used.merge(matches(text, R"re("(UNREADABLE)")re"));
        }
    }
    // Element types of safetensors ("F8_E4M3") are spelled alike.
    std::erase_if(used, [](const std::string& code) { return code[0] == 'F' && code[1] >= '0' && code[1] <= '9'; });
    CHECK(used == documented());
}

TEST_CASE("whatever the reference page calls undecodable cannot be accepted") {
    const std::string page = text_of(std::filesystem::path(EPLB_SOURCE_DIR) / "docs/reference.md");
    const std::size_t begin = page.find("### Files that cannot be decoded"), end = page.find("###", begin + 3);
    std::set<std::string> codes = matches(page.substr(begin, end - begin), R"(\n\| `([A-Z0-9_]+)` \|)");
    codes.erase("NO_LAYOUT");  // of a layout
    const auto known = undecodable_codes();
    for (const std::string& code : codes) {
        CAPTURE(code);
        CHECK(std::find(known.begin(), known.end(), code) != known.end());
    }
}
