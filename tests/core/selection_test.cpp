#include "core/selection.hpp"

#include <catch2/catch.hpp>

#include "core/counts.hpp"
#include "core/error.hpp"

using namespace eplb;

namespace {

// [4, 3, 2]: the value is 100 slot + 10 layer + expert + 1.
Tensor sample() {
    std::vector<std::int64_t> values;
    for (int slot = 0; slot < 4; ++slot) {
        for (int layer = 0; layer < 3; ++layer) {
            for (int expert = 0; expert < 2; ++expert) values.push_back(100 * slot + 10 * layer + expert + 1);
        }
    }
    return make_count_tensor(values, 4, 3, 2);
}

Selection slots(std::vector<std::string> drop, std::vector<std::string> take = {}) {
    Selection selection;
    for (const std::string& text : drop) selection.drop_slots.push_back(parse_slot_choice("--drop-slots", text));
    for (const std::string& text : take) selection.take_slots.push_back(parse_slot_choice("--take-slots", text));
    return selection;
}

std::string complaint(const Selection& selection, const std::optional<std::string>& path, bool alone) {
    try {
        left_out(selection, sample(), path, alone);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::usage);
        return error.message();
    }
    return "";
}

}  // namespace

TEST_CASE("record slots are dropped, or all but some are") {
    CHECK(left_out(slots({"0", "2"}), sample(), "a.pt", true).slots == std::vector{0, 2});
    CHECK(left_out(slots({}, {"0", "2"}), sample(), "a.pt", true).slots == std::vector{1, 3});
    CHECK_FALSE(left_out(slots({}), sample(), "a.pt", true).any());
}

TEST_CASE("among several files a list names its file, by path or base name") {
    const Selection selection = slots({"run/a.pt:0", "b.pt:1-2"});
    CHECK(left_out(selection, sample(), "run/a.pt", false).slots == std::vector{0});
    CHECK(left_out(selection, sample(), "run/b.pt", false).slots == std::vector{1, 2});
    CHECK(left_out(selection, sample(), "run/c.pt", false).slots.empty());
    CHECK(left_out(slots({}, {"b.pt:1"}), sample(), "c.pt", false).slots.empty());  // nothing was said of c.pt
    CHECK(complaint(slots({"0"}), "a.pt", false) == "'0' does not say of which file");
    CHECK(complaint(slots({"a.pt:0"}), std::nullopt, true) ==
          "a.pt is one rank's share of a window, whose passes are left out of the sum");
}

TEST_CASE("numbers that the counts do not have are refused") {
    CHECK(complaint(slots({"3"}), "a.pt", true).empty());
    CHECK(complaint(slots({"4"}), "a.pt", true) == "there is no record slot 4 in a.pt: it has 4");
    Selection layers;
    layers.take_layers = IndexList::parse("--take-layers", "0-2");
    CHECK(complaint(layers, "a.pt", true).empty());
    layers.take_layers = IndexList::parse("--take-layers", "0-3");
    CHECK(complaint(layers, "a.pt", true) == "there is no layer 3 in a.pt: it has 3");
}

TEST_CASE("drop and take of one kind, and names of no file, are refused") {
    const auto refused = [](const Selection& selection) {
        CHECK_THROWS_AS(require_consistent(selection, {"run/a.pt", "other/a.pt", "b.pt"}), Error);
    };
    refused(slots({"b.pt:0"}, {"b.pt:1"}));
    refused(slots({"c.pt:0"}));
    refused(slots({"a.pt:0"}));  // two files of this name
    Selection layers;
    layers.drop_layers = layers.take_layers = IndexList::below(1);
    refused(layers);
    CHECK_NOTHROW(require_consistent(slots({"run/a.pt:0", "b.pt:0"}), {"run/a.pt", "other/a.pt", "b.pt"}));
}

TEST_CASE("rows that are left out are zero, and the others keep their place") {
    Selection selection = slots({"1"});
    selection.drop_layers = IndexList::parse("--drop-layers", "0");
    const Tensor tensor = sample();
    const Tensor kept = without(tensor, left_out(selection, tensor, "a.pt", true));
    const Counts counts({kept});
    std::vector<std::int64_t> row(2);
    for (int slot = 0; slot < 4; ++slot) {
        for (int layer = 0; layer < 3; ++layer) {
            counts.read_row(slot, layer, row);
            const bool zero = slot == 1 || layer == 0;
            const int first = 100 * slot + 10 * layer + 1;
            CHECK(row == (zero ? std::vector<std::int64_t>{0, 0} : std::vector<std::int64_t>{first, first + 1}));
        }
    }
}

TEST_CASE("rows of strided floats stay what they are") {
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};  // stored [experts, record slots, layers]
    Tensor tensor;
    tensor.dtype = DType::float32;
    tensor.shape = {2, 2, 2};
    tensor.strides = {2, 1, 4};
    tensor.data = reinterpret_cast<const std::byte*>(values.data());
    LeftOut left;
    left.slots = {0};
    const Counts counts({without(tensor, left)});
    std::vector<std::int64_t> row(2);
    counts.read_row(0, 1, row);
    CHECK(row == std::vector<std::int64_t>{0, 0});
    counts.read_row(1, 1, row);
    CHECK(row == std::vector<std::int64_t>{4, 8});
}
