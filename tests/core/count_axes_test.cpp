#include "core/count_axes.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "core/tensor_view.hpp"

using namespace eplb;
using Catch::Matchers::Contains;
using enum CountAxis;

TEST_CASE("lists of axes are read and written") {
    CHECK(parse_count_axes("layers,slots,experts") == CountAxes{layers, slots, experts});
    CHECK(parse_count_axes("experts,layers") == CountAxes{experts, layers});
    CHECK(axes_text(CountAxes{experts, layers, slots}) == "experts,layers,slots");
    for (const char* wrong : {"", "layers", "slots,layers", "slots,experts", "layers,layers", "layers,experts,",
                              "slots,layers,experts,slots", "layer,experts", "experts, layers"}) {
        CAPTURE(wrong);
        CHECK_THROWS_WITH(parse_count_axes(wrong), Contains("--axes: "));
    }
}

TEST_CASE("an array in another order is viewed as slots, layers, experts without a copy") {
    std::vector<std::int32_t> values(24);
    for (int i = 0; i < 24; ++i) values[static_cast<std::size_t>(i)] = i;
    const Tensor file = view_of(values, {2, 3, 4});  // [layers, experts, slots]
    const Tensor view = in_order(file, CountAxes{layers, experts, slots});
    CHECK(view.shape == std::vector<std::int64_t>{4, 2, 3});
    CHECK(view.data == file.data);
    // Slot 3, layer 1, expert 2 is the last element.
    CHECK(integer_at(view, 3 * view.strides[0] + 1 * view.strides[1] + 2 * view.strides[2]) == 23);
    CHECK(integer_at(view, 1 * view.strides[0]) == 1);
}

TEST_CASE("two axes are one record slot") {
    const std::vector<std::int32_t> values{1, 2, 3, 4, 5, 6};
    const CountAxes axes{experts, layers};
    CHECK(in_order(view_of(values, {3, 2}), axes).shape == std::vector<std::int64_t>{2, 3});
    CHECK(in_order(view_of(values, {1, 3, 2}), axes).shape == std::vector<std::int64_t>{2, 3});
    CHECK_THROWS_WITH(in_order(view_of(values, {2, 3, 1}), axes),
                      Contains("experts,layers names 2 axes, the array has 3"));
    CHECK_THROWS_WITH(in_order(view_of(values, {2, 3}), CountAxes{layers, slots, experts}),
                      Contains("names 3 axes, the array has 2: [2, 3]"));
}
