#include <catch2/catch.hpp>

#include "core/error.hpp"

using namespace eplb;

TEST_CASE("an error is one line: place, fault, remedy") {
    CHECK(std::string(Error(ErrorCode::input, "byte 12", "is no number", "write one").what()) ==
          "byte 12: is no number (write one)");
    CHECK(std::string(Error(ErrorCode::usage, "", "no file").what()) == "no file");
}

TEST_CASE("an error keeps its code and finding code when its place is widened") {
    const Error error = Error(ErrorCode::input, "byte 12", "is cut").as_finding("TRUNCATED").inside("x.pt");
    CHECK(std::string(error.what()) == "x.pt: byte 12: is cut");
    CHECK(error.code() == ErrorCode::input);
    CHECK(error.finding_code() == "TRUNCATED");
    CHECK(Error(ErrorCode::input, "", "is cut").finding_code().empty());
}
