#include "files/read_back.hpp"

#include <catch2/catch.hpp>

#include "files/error_of.hpp"

using namespace eplb;

TEST_CASE("bytes go out only when their own reader understands them as they were meant") {
    const auto number = [](const std::string& text) { return std::stoi(text); };
    CHECK(require_reads_back("a number", std::string("12"), 12, number) == "12");

    const Error other = error_of([&] { require_reads_back("a number", std::string("12"), 13, number); });
    CHECK(other.code() == ErrorCode::internal);
    CHECK_THAT(other.what(), Catch::Contains("a number") && Catch::Contains("something else"));

    const auto refuses = [](const std::string&) -> int { throw Error(ErrorCode::input, "byte 3", "is no digit"); };
    const Error refused = error_of([&] { require_reads_back("a number", std::string("12"), 12, refuses); });
    CHECK(refused.code() == ErrorCode::internal);
    CHECK_THAT(refused.what(), Catch::Contains("byte 3: is no digit"));
}
