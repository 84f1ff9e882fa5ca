#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "core/counts.hpp"
#include "core/tensor_view.hpp"
#include "counts_io/count_file.hpp"
#include "files/error_of.hpp"

using namespace eplb;

TEST_CASE("every format that is written reads back with the same counts, shape and type") {
    std::vector<std::int32_t> values(2 * 3 * 4);
    std::iota(values.begin(), values.end(), 100);
    for (const std::string_view format : {"pt", "npy", "h5"}) {
        CAPTURE(format);
        const std::vector<std::byte> bytes = encode_counts(format, view_of(values, {2, 3, 4}));
        const CountFile file = decode_count_file(MappedFile::copy_of("x", bytes), {});
        CHECK(file.format == format);
        CHECK(file.tensor.dtype == DType::int32);
        CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 3, 4});
        CHECK((file.reduction == Reduction::reduced) == (format == "pt"));
        std::vector<std::int64_t> row(4);
        Counts({file.tensor}).read_row(1, 2, row);
        CHECK(row == std::vector<std::int64_t>{120, 121, 122, 123});
        CHECK(bytes == encode_counts(format, view_of(values, {2, 3, 4})));  // no date, no chance
    }
}

TEST_CASE("counts beyond int32 are written as int64") {
    const std::vector<std::int64_t> values{3'000'000'000, 0, 1, 9'007'199'254'740'993};
    for (const std::string_view format : {"pt", "npy", "h5"}) {
        CAPTURE(format);
        const std::vector<std::byte> bytes = encode_counts(format, view_of(values, {2, 1, 2}));
        const CountFile file = decode_count_file(MappedFile::copy_of("x", bytes), {});
        CHECK(file.tensor.dtype == DType::int64);
        CHECK(integer_at(file.tensor, 0) == 3'000'000'000);
        CHECK(integer_at(file.tensor, 3) == 9'007'199'254'740'993);
    }
}

TEST_CASE("a format that is only read, or unknown, is not written") {
    const std::vector<std::int32_t> values(4);
    CHECK(error_of([&] { encode_counts("json", view_of(values, {1, 2, 2})); }).code() == ErrorCode::usage);
    CHECK(error_of([&] { encode_counts("csv", view_of(values, {1, 2, 2})); }).code() == ErrorCode::usage);
}

TEST_CASE("extents that need two, three and five bytes in the pickle survive") {
    const std::vector<std::int32_t> values(300 * 1 * 300, 7);
    const CountFile file =
        decode_count_file(MappedFile::copy_of("x", encode_counts("pt", view_of(values, {300, 1, 300}))), {});
    CHECK(file.tensor.shape == std::vector<std::int64_t>{300, 1, 300});
    CHECK(integer_at(file.tensor, 89'999) == 7);
}
