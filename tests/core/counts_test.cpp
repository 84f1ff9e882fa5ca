#include "core/counts.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "core/error.hpp"

using namespace eplb;

namespace {

// A tensor over a copy of `values`, contiguous unless strides are set afterwards.
template <typename T>
Tensor tensor_of(const std::vector<T>& values, DType dtype, std::vector<std::int64_t> shape) {
    auto owner = std::make_shared<std::vector<T>>(values);
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.strides = tensor.contiguous_strides();
    tensor.data = reinterpret_cast<const std::byte*>(owner->data());
    tensor.owner = owner;
    return tensor;
}

std::vector<std::int64_t> row_of(const Counts& counts, int slot, int layer) {
    std::vector<std::int64_t> row(static_cast<std::size_t>(counts.experts()));
    counts.read_row(slot, layer, row);
    return row;
}

std::string error_of(const Counts& counts, int slot, int layer) {
    try {
        row_of(counts, slot, layer);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("rows of every number type read back as int64") {
    CHECK(row_of(Counts({tensor_of<std::int32_t>({1, 2, 3, 4}, DType::int32, {1, 2, 2})}), 0, 1) ==
          std::vector<std::int64_t>{3, 4});
    CHECK(row_of(Counts({tensor_of<std::uint8_t>({1, 255}, DType::uint8, {1, 1, 2})}), 0, 0) ==
          std::vector<std::int64_t>{1, 255});
    CHECK(row_of(Counts({tensor_of<float>({0.0F, 16777216.0F}, DType::float32, {1, 1, 2})}), 0, 0) ==
          std::vector<std::int64_t>{0, 16777216});
    // 0x3c00 is 1.0 and 0x6400 is 1024.0 in IEEE half precision; 0x4040 is 3.0 in bfloat16.
    CHECK(row_of(Counts({tensor_of<std::uint16_t>({0x3c00, 0x6400}, DType::float16, {1, 1, 2})}), 0, 0) ==
          std::vector<std::int64_t>{1, 1024});
    CHECK(row_of(Counts({tensor_of<std::uint16_t>({0x4040}, DType::bfloat16, {1, 1, 1})}), 0, 0) ==
          std::vector<std::int64_t>{3});
}

TEST_CASE("strides and byte order are honoured") {
    Tensor transposed = tensor_of<std::int32_t>({1, 2, 3, 4, 5, 6}, DType::int32, {1, 3, 2});
    transposed.shape = {1, 2, 3};
    transposed.strides = {6, 1, 2};
    CHECK(row_of(Counts({transposed}), 0, 0) == std::vector<std::int64_t>{1, 3, 5});
    CHECK(row_of(Counts({transposed}), 0, 1) == std::vector<std::int64_t>{2, 4, 6});

    Tensor swapped = tensor_of<std::uint32_t>({0x01000000, 0x02010000}, DType::int32, {1, 1, 2});
    swapped.byte_swapped = true;
    CHECK(row_of(Counts({swapped}), 0, 0) == std::vector<std::int64_t>{1, 258});
}

TEST_CASE("a value that is no count is refused with its coordinate") {
    CHECK(error_of(Counts({tensor_of<std::int32_t>({0, 0, 0, -7}, DType::int32, {1, 2, 2})}), 0, 1) ==
          "record slot 0, layer 1, expert 1: count -7 is negative");
    CHECK(error_of(Counts({tensor_of<std::int32_t>({0, 0, 0, 7}, DType::int32, {1, 2, 2})}), 0, 1).empty());
    CHECK_FALSE(error_of(Counts({tensor_of<float>({0.5F}, DType::float32, {1, 1, 1})}), 0, 0).empty());
    CHECK_FALSE(
        error_of(Counts({tensor_of<double>({std::numeric_limits<double>::quiet_NaN()}, DType::float64, {1, 1, 1})}), 0,
                 0)
            .empty());
    CHECK_FALSE(error_of(Counts({tensor_of<double>({9007199254740994.0}, DType::float64, {1, 1, 1})}), 0, 0).empty());
    CHECK(error_of(Counts({tensor_of<double>({9007199254740992.0}, DType::float64, {1, 1, 1})}), 0, 0).empty());
    CHECK_FALSE(error_of(Counts({tensor_of<std::uint64_t>({1ULL << 63}, DType::uint64, {1, 1, 1})}), 0, 0).empty());
}

TEST_CASE("several tensors are one sequence of record slots") {
    const Counts counts({tensor_of<std::int32_t>({1, 2}, DType::int32, {2, 1, 1}),
                         tensor_of<std::int64_t>({}, DType::int64, {0, 1, 1}),
                         tensor_of<std::int64_t>({3}, DType::int64, {1, 1, 1})});
    CHECK(counts.record_slots() == 3);
    CHECK(counts.slot_totals() == std::vector<std::int64_t>{1, 2, 3});
    CHECK_THROWS_AS(Counts({tensor_of<std::int32_t>({1}, DType::int32, {1, 1, 1}),
                            tensor_of<std::int32_t>({1, 1}, DType::int32, {1, 1, 2})}),
                    Error);
    CHECK_THROWS_AS(Counts({tensor_of<std::int32_t>({1}, DType::int32, {1, 1})}), Error);
}

TEST_CASE("a gathered layer holds the chosen record slots in order") {
    const Counts counts({make_count_tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 3, 2, 2)});
    const std::array<int, 2> chosen{2, 0};
    const LayerCounts layer = gather(counts, 1, chosen);
    CHECK(layer.values == std::vector<std::int64_t>{11, 12, 3, 4});
    CHECK(layer.slot_total(0) == 23);
    CHECK(layer.expert_totals() == std::vector<std::int64_t>{14, 16});
}

TEST_CASE("sums beyond int64 are refused, not wrapped") {
    const std::int64_t large = std::numeric_limits<std::int64_t>::max();
    const Counts fits({make_count_tensor({large, 0}, 1, 1, 2)}), overflows({make_count_tensor({large, 1}, 1, 1, 2)});
    CHECK(fits.slot_totals().front() == large);
    CHECK_THROWS_AS(overflows.slot_totals(), Error);
}
