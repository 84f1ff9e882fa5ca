#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "error_of.hpp"
#include "files/safetensors.hpp"

using namespace eplb;

namespace {

SafetensorsFile parse(const std::string& text) {
    return SafetensorsFile::parse(MappedFile::copy_of("x.safetensors", std::as_bytes(std::span(text))));
}

// A file with this header and `data_bytes` zeros.
std::string file_of(const std::string& header, std::size_t data_bytes) {
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    length[1] = static_cast<char>(header.size() >> 8);
    return length + header + std::string(data_bytes, '\0');
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
    return error_of([&] { parse(file_of(header, data_bytes)); }).what();
}

const std::string two_tensors =
    R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"BF16","shape":[3,1],"data_offsets":[8,14]}})";

}  // namespace

TEST_CASE("tensors are given in the order of their bytes and found by name") {
    std::string text = file_of(two_tensors, 14);
    text[text.size() - 6] = 'x';
    const SafetensorsFile file = parse(text);
    REQUIRE(file.entries().size() == 2);
    CHECK(file.entries()[0] == SafetensorsEntry{"b", "F32", {2}, 0, 8});
    CHECK(file.entries()[1] == SafetensorsEntry{"a", "BF16", {3, 1}, 8, 14});
    CHECK(file.metadata() == SafetensorsMetadata{{"format", "pt"}});
    REQUIRE(file.find("a") != nullptr);
    CHECK(file.find("c") == nullptr);
    CHECK(file.bytes(*file.find("a")).size() == 6);
    CHECK(static_cast<char>(file.bytes(*file.find("a"))[0]) == 'x');
}

TEST_CASE("a header that was encoded is read back, with awkward names") {
    std::vector<SafetensorsEntry> entries{
        {"quote\" and \\", "I64", {2, 3}, 0, 0}, {"scalar", "F8_E4M3", {}, 0, 0}, {"empty", "F16", {0, 5}, 0, 0}};
    place_back_to_back(entries);
    CHECK(entries[1].begin == 48);
    CHECK(entries[2].end == 49);
    const std::string header = encode_safetensors_header(entries, {{"k", "v\n"}});
    CHECK(header.size() % 8 == 0);
    const SafetensorsFile file = parse(header + std::string(49, '\0'));
    CHECK(file.entries() == entries);
    CHECK(file.metadata() == SafetensorsMetadata{{"k", "v\n"}});
    CHECK(parse(encode_safetensors_header({}, {})).entries().empty());
}

TEST_CASE("four-bit elements take half a byte each and must fill whole bytes") {
    const std::vector<std::int64_t> even{3, 4}, odd{3, 3};
    CHECK(safetensors_bytes("F4", even) == 6);
    CHECK_THROWS_AS(safetensors_bytes("F4", odd), Error);
    CHECK(safetensors_bytes("F6_E2M3", even) == 9);
}

TEST_CASE("what does not add up is refused with its place") {
    const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
    };
    CHECK_NOTHROW(parse(file_of(one("F32", "[2]", "[0,8]"), 8)));
    CHECK_THAT(refusal(one("F32", "[2]", "[0,4]"), 4), Catch::Contains("which takes 8"));
    CHECK_THAT(refusal(one("F32", "[2]", "[0,8]"), 7), Catch::Contains("7 bytes of data, the tensors need 8"));
    CHECK_THAT(refusal(one("F32", "[2]", "[0,8]"), 9), Catch::Contains("1 bytes after the last tensor"));
    CHECK_THAT(refusal(one("F32", "[2]", "[4,12]"), 12), Catch::Contains("starts at byte 4"));
    CHECK_THAT(refusal(one("F31", "[2]", "[0,8]"), 8), Catch::Contains("'F31' is no element type"));
    CHECK_THAT(refusal(one("F32", "[-2]", "[0,8]"), 8), Catch::Contains("$.w.shape[0]"));
    CHECK_THAT(refusal(one("F32", "[2.0]", "[0,8]"), 8), Catch::Contains("$.w.shape[0]"));
    CHECK_THAT(refusal(one("F32", "[4611686018427387904,4]", "[0,8]"), 8), Catch::Contains("larger than any file"));
    CHECK_THAT(refusal(one("F32", "[2]", "[8,0]"), 8), Catch::Contains("bytes 8 to 0"));
    CHECK_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                       6),
               Catch::Contains("b: starts at byte 2"));
    CHECK_THAT(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":1})", 0),
               Catch::Contains("x.safetensors"));
}

TEST_CASE("an absurd header length is refused without reading on") {
    std::string text(16, '\xff');
    CHECK_THAT(error_of([&] { parse(text); }).what(), Catch::Contains("a header of 18446744073709551615 bytes"));
    text = std::string("\x00\x00\x10\x00\x00\x00\x00\x00", 8) + "{}";
    CHECK_THAT(error_of([&] { parse(text); }).what(), Catch::Contains("the header alone has"));
}

TEST_CASE("a safetensors file cut at any byte is refused") {
    const std::string whole = file_of(two_tensors, 14);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK(error_of([&] { parse(whole.substr(0, size)); }).code() == ErrorCode::input);
    }
    CHECK_NOTHROW(parse(whole));
}

TEST_CASE("changed bytes of a header are refused or read, never more than that") {
    const std::string whole = file_of(two_tensors, 14);
    Random random(3);
    for (int round = 0; round < 5000; ++round) {
        std::string text = whole;
        for (std::uint32_t change = random.below(3) + 1; change-- > 0;) {
            text[random.below(static_cast<std::uint32_t>(8 + two_tensors.size()))] =
                static_cast<char>(random.below(256));
        }
        try {
            const SafetensorsFile file = parse(text);
            for (const SafetensorsEntry& entry : file.entries()) CHECK(file.bytes(entry).size() == entry.bytes());
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::input);
        }
    }
}
