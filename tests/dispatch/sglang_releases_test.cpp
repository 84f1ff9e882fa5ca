#include "dispatch/sglang_releases.hpp"

#include <catch2/catch.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "dispatch/model.hpp"

using namespace eplb;

namespace {

std::string resolved(std::string name, const std::optional<std::string>& version) {
    resolve_dispatch(std::span(&name, 1), version);
    return name;
}

}  // namespace

TEST_CASE("each period of SGLang's dispatch begins and ends with the releases and days of its commits") {
    const auto generation = [](const char* version) {
        const std::string name = resolved("auto", version);
        find_dispatch_model(name);
        CHECK(resolved("sglang", version) == name);
        CHECK(resolved("sglang-dynamic", version) == "sglang-dynamic-" + name.substr(7));
        find_dispatch_model("sglang-dynamic-" + name.substr(7));
        return name.substr(7);
    };
    const auto check_period = [&](const char* expected, std::initializer_list<const char*> versions) {
        for (const char* version : versions) {
            CAPTURE(version);
            CHECK(generation(version) == expected);
        }
    };
    check_period("a", {"0.4.7", "0.4.9.post6", "v0.5.2", "0.5.3rc0", "2025-05-29", "2025-09-21"});
    check_period("b-fill-all", {"0.5.3", "0.5.3.post1", "0.5.4", "0.5.4.post1", "2025-09-22", "2025-10-27"});
    check_period("c", {"0.5.4.post2", "0.5.5", "v0.5.5.post1", "2025-10-28", "2025-11-10", "2025-11-12", "2025-11-14"});
    check_period("c-one-stream", {"0.5.5.post2", "0.5.5.post3", "2025-11-11", "2025-11-15", "2025-11-20"});
    check_period("c", {"0.5.6", "0.5.9", "0.5.10", "0.5.15.post2", "2025-11-21", "2026-07-15"});
    check_period("d-subset", {"0.5.16", "v0.5.16.post1", "0.6.0", "1.0.0", "2026-07-16", "2027-01-01"});
}

TEST_CASE("versions that are none, too old, or candidates at the edge of a period are refused") {
    for (const char* version :
         {"", "0.5", "0.5.", "latest", "0.5.6+cu126", "0.5.6.post", "2026-7-16", "2026-13-01", "2026-07-16T00:00",
          "0.4.6.post5", "2025-05-28", "0.5.3rc1", "0.5.16rc0", "-1.0.0", "0.5.6.dev3", "2026-07-32"}) {
        CAPTURE(version);
        try {
            resolved("auto", version);
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::usage);
        }
    }
}

TEST_CASE("a version goes with a name that depends on it, and auto with a version") {
    CHECK(resolved("sglang-c", std::nullopt) == "sglang-c");
    CHECK(resolved("sglang", std::nullopt) == "sglang");  // refused with its generations where it is looked up
    CHECK_THROWS_AS(resolved("auto", std::nullopt), Error);
    CHECK_THROWS_AS(resolved("sglang-c", "0.5.6"), Error);
    std::vector<std::string> names{"omni", "auto", "sglang-dynamic"};
    resolve_dispatch(names, "0.5.6");
    CHECK(names == std::vector<std::string>{"omni", "sglang-c", "sglang-dynamic-c"});
}
