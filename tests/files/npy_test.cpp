#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "files/npy.hpp"

using namespace eplb;

namespace {

std::shared_ptr<const MappedFile> file_of(std::string_view bytes) {
    return MappedFile::copy_of("x.npy", std::as_bytes(std::span(bytes)));
}

std::string npy(const std::string& header, const std::string& data, int version = 1) {
    std::string bytes = "\x93NUMPY";
    bytes += {static_cast<char>(version), '\0', static_cast<char>(header.size()), '\0'};
    if (version > 1) bytes += {'\0', '\0'};
    return bytes + header + data;
}

std::string header_of(const std::string& descr, const std::string& shape, const std::string& order = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::vector<std::int64_t> values_of(const Tensor& tensor) {  // of a 2-D integer tensor, row by row
    std::vector<std::int64_t> values;
    for (std::int64_t row = 0; row < tensor.shape.at(0); ++row) {
        for (std::int64_t column = 0; column < tensor.shape.at(1); ++column) {
            values.push_back(integer_at(tensor, row * tensor.strides[0] + column * tensor.strides[1]));
        }
    }
    return values;
}

Error read_error(const std::string& bytes) {
    return error_of([&] { read_npy(file_of(bytes)); });
}

}  // namespace

TEST_CASE("little and big endian, C and Fortran order give the same array") {
    const std::vector<std::int64_t> wanted = {1, 2, 3, 4, 5, 6};
    using namespace std::string_literals;
    const std::string little = "\1\0\2\0\3\0\4\0\5\0\6\0"s, big = "\0\1\0\2\0\3\0\4\0\5\0\6"s;
    const std::string columns = "\1\0\4\0\2\0\5\0\3\0\6\0"s;
    for (const int version : {1, 2, 3}) {
        CHECK(values_of(read_npy(file_of(npy(header_of("<i2", "(2, 3)"), little, version)))) == wanted);
        CHECK(values_of(read_npy(file_of(npy(header_of(">i2", "(2, 3)"), big, version)))) == wanted);
        CHECK(values_of(read_npy(file_of(npy(header_of("<i2", "(2, 3)", "True"), columns, version)))) == wanted);
    }
    CHECK(values_of(read_npy(file_of(npy(header_of("|u1", "(1, 2)"), "\xff\x01")))) ==
          std::vector<std::int64_t>{255, 1});
    CHECK(floating_at(read_npy(file_of(npy(header_of(">f4", "(1,)"), "\x3f\xc0\0\0"s))), 0) == 1.5);
}

TEST_CASE("the header's keys may stand in any order, with any spaces") {
    CHECK(read_npy(file_of(npy("{\"shape\":( 2 ,1 ),'fortran_order' : False,'descr':'|i1'}   \n", "ab"))).shape ==
          std::vector<std::int64_t>{2, 1});
    CHECK(read_npy(file_of(npy(header_of("|i1", "()"), "a"))).shape.empty());
}

TEST_CASE("an encoded array is NumPy's own layout, byte for byte") {
    const std::vector<std::int32_t> values = {1, -2, 3, 4, 5, 0x01020304};
    const std::vector<std::int64_t> shape = {1, 2, 3};
    const std::vector<std::byte> bytes = encode_npy(values, shape);
    // numpy.save(f, numpy.array(values, "<i4").reshape(1, 2, 3)) of NumPy 1.24
    std::string wanted = "\x93NUMPY";
    wanted += std::string("\1\0v\0", 4) + "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2, 3), }";
    wanted += std::string(127 - wanted.size(), ' ') + "\n";
    wanted += std::string("\1\0\0\0\xfe\xff\xff\xff\3\0\0\0\4\0\0\0\5\0\0\0\4\3\2\1", 24);
    CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == wanted);
    const std::vector<std::int64_t> longs = {7, 8}, pair = {2};
    const Tensor back = read_npy(MappedFile::copy_of("x", encode_npy(longs, pair)));
    CHECK(back.dtype == DType::int64);
    CHECK(back.shape == pair);
    CHECK(integer_at(back, 1) == 8);
}

TEST_CASE("what is no plain array is refused by name") {
    CHECK(read_error(npy(header_of("|O", "(2,)"), "ab")).finding_code() == "UNSUPPORTED_TYPE");
    CHECK(read_error(npy(header_of("<c8", "(1,)"), "12345678")).finding_code() == "UNSUPPORTED_TYPE");
    CHECK(read_error(npy(header_of("<i3", "(1,)"), "123")).finding_code() == "UNSUPPORTED_TYPE");
    CHECK(
        read_error(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", "1234")).finding_code() ==
        "UNSUPPORTED_TYPE");
    CHECK(read_error(npy(header_of("|i1", "(2,)"), "abc")).finding_code() == "BAD_GEOMETRY");  // a byte too many
    CHECK(read_error(npy(header_of("|i1", "(-2,)"), "ab")).finding_code() == "MALFORMED");
    CHECK(read_error(npy("{'descr': '|i1', 'shape': (1,), }", "a")).finding_code() == "MALFORMED");
    CHECK(read_error(npy("{'descr': '|i1', 'descr': '|i1', 'shape': (1,), }", "a")).finding_code() == "MALFORMED");
    CHECK(read_error(npy(header_of("|i1", "(1,)"), "a", 4)).finding_code() == "MALFORMED");
    CHECK(read_error("no array at all").finding_code() == "MALFORMED");
}

TEST_CASE("absurd shapes are refused before anything is allocated") {
    CHECK(read_error(npy(header_of("<i8", "(4611686018427387904, 4)"), "")).finding_code() == "BAD_GEOMETRY");
    CHECK(read_error(npy(header_of("<i8", "(1152921504606846976,)"), "")).finding_code() == "BAD_GEOMETRY");
    CHECK(read_error(npy(header_of("<i8", "(1099511627776, 1099511627776, 0)"), "")).finding_code() == "BAD_GEOMETRY");
    CHECK(read_error(npy(header_of("<i8", "(99999999999999999999,)"), "")).finding_code() == "MALFORMED");
    std::string axes = "(";
    for (int axis = 0; axis < 33; ++axis) axes += "1,";
    CHECK(read_error(npy(header_of("|i1", axes + ")"), "a")).finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("an array cut at any byte is refused with both sizes") {
    const std::vector<std::int32_t> values(6, 1);
    const std::vector<std::int64_t> shape = {2, 3};
    const std::vector<std::byte> bytes = encode_npy(values, shape);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CAPTURE(size);
        const Error error = error_of([&] { read_npy(MappedFile::copy_of("x", std::span(bytes).first(size))); });
        CHECK(error.code() == ErrorCode::input);
        CHECK(error.finding_code() == (size < 6 ? "MALFORMED" : "TRUNCATED"));
    }
    CHECK_THAT(error_of([&] { read_npy(MappedFile::copy_of("x", std::span(bytes).first(140))); }).what(),
               Catch::Contains("140 bytes") && Catch::Contains("int32 [2, 3] needs 152"));
}
