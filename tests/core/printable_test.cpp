#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "core/printable.hpp"

using namespace eplb;

TEST_CASE("letters of any script pass, control characters and stray bytes do not") {
    CHECK(printable("counts \xe4\xb8\x93\xe5\xae\xb6 \xc3\xa9 \xf0\x9f\x98\x80") ==
          "counts \xe4\xb8\x93\xe5\xae\xb6 \xc3\xa9 \xf0\x9f\x98\x80");
    CHECK(printable("a\x1b[31m\nb\x7f\tc") == "a?[31m?b??c");
    CHECK(printable(std::string_view("\0x", 2)) == "?x");
    CHECK(printable("\xc2\x9b") == "?");             // C1: a one-character escape sequence
    CHECK(printable("\xff\xc0\xaf") == "???");       // never UTF-8; an overlong slash
    CHECK(printable("\xed\xa0\x80") == "???");       // a surrogate
    CHECK(printable("\xf4\x90\x80\x80") == "????");  // above U+10FFFF
    CHECK(printable("\xe4\xb8") == "??");            // cut
    CHECK(printable("\xe0\x9f\xbf\xe0\xa0\x80") == "???\xe0\xa0\x80");
}

TEST_CASE("a long text is cut between two characters") {
    CHECK(shortened("abcd", 4) == "abcd");
    CHECK(shortened("abcde", 4) == "abcd...");
    CHECK(shortened("abc\xc3\xa9", 4) == "abc...");
    CHECK(shortened("ab\xc3\xa9z", 4) == "ab\xc3\xa9...");
    CHECK(shortened(std::string(8, '\x80'), 4) == "\x80...");  // no UTF-8 at all: cut somewhere
}

TEST_CASE("a list of names ends with the number of those left out") {
    const std::vector<std::string> names{"a", "b", "c"};
    CHECK(first_few(names, 3) == "a, b, c");
    CHECK(first_few(names, 2) == "a, b and 1 more");
    CHECK(first_few({}, 2).empty());
}

TEST_CASE("an error does not grow with what it quotes") {
    const std::string endless(1 << 20, 'x');
    CHECK(std::string(Error(ErrorCode::input, endless, endless, endless).what()).size() < 4000);
}

TEST_CASE("an error is one printable line whatever the file holds") {
    CHECK(std::string(Error(ErrorCode::input, "a\nb", "\x1b[2J", "\xff").what()) == "a?b: ?[2J (?)");
}
