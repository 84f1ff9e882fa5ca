#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <vector>

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

TEST_CASE("what ends a reading is thrown again with the place of the file") {
    const auto rethrown = [](const std::function<void()>& read) {
        try {
            try {
                read();
            } catch (...) {
                rethrow_inside("x.json");
            }
        } catch (const Error& error) {
            return error;
        }
        throw std::runtime_error("no Error");
    };
    const Error placed = rethrown([] { throw Error(ErrorCode::input, "$.a", "is odd").as_finding("MALFORMED"); });
    CHECK(std::string(placed.what()) == "x.json: $.a: is odd");
    CHECK(placed.finding_code() == "MALFORMED");
    for (const auto& read : {+[] { throw std::bad_alloc(); }, +[] { std::vector<int>().reserve(SIZE_MAX); }}) {
        const Error scarce = rethrown(read);
        CHECK(scarce.code() == ErrorCode::input);
        CHECK_THAT(scarce.what(), Catch::Contains("x.json: needs more memory"));
    }
    CHECK_THROWS_AS(rethrown([] { throw std::logic_error("ours"); }), std::logic_error);
}
