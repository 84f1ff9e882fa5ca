// Which zero rows are ordinary, stated or unexplained.
#include "check/expected_layers.hpp"

#include <catch2/catch.hpp>

#include "samples.hpp"

using namespace eplb;

namespace {

std::vector<int> range(int first, int last) {
    std::vector<int> numbers;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    return numbers;
}

CountOptions with(const char* dense, const char* take = nullptr) {
    CountOptions options;
    if (dense) options.dense_layers = IndexList::parse("--dense-layers", dense);
    if (take) options.selection.take_layers = IndexList::parse("--take-layers", take);
    return options;
}

Finding zero_layers(int layers, const std::vector<int>& counted, const CountOptions& options = {}) {
    Sample sample(2, layers, 4);
    for (const int layer : counted) {
        for (int expert = 0; expert < 4; ++expert) {
            sample.at(0, layer, expert) = 10 + expert;
            sample.at(1, layer, expert) = 12 + expert;
        }
    }
    return find(check_sample(sample, options).findings, "ZERO_LAYERS");
}

}  // namespace

TEST_CASE("four leading zero rows are ordinary, five are unexplained") {
    const ExpectedLayers four = expected_layers({}, 10, range(0, 3));
    CHECK(four.leading == range(0, 3));
    CHECK(four.unexplained.empty());
    CHECK(four.expected == 6);
    CHECK(four.counted == 6);
    const ExpectedLayers five = expected_layers({}, 10, range(0, 4));
    CHECK(five.leading.empty());
    CHECK(five.unexplained == range(0, 4));
    CHECK(five.expected == 6);  // the first four may be dense
    CHECK(five.counted == 5);
}

TEST_CASE("where the dense layers are stated no other leading row is ordinary") {
    const ExpectedLayers layers = expected_layers(with("0-1"), 10, range(0, 3));
    CHECK(layers.stated == range(0, 1));
    CHECK(layers.unexplained == range(2, 3));
    CHECK(layers.expected == 8);
    CHECK(expected_layers(with("0-1"), 10, std::vector<int>{0}).contradicted == std::vector<int>{1});
}

TEST_CASE("every second layer dense, and a pipeline stage, are explained when they are stated") {
    const std::vector<int> even{0, 2, 4, 6, 8};
    CHECK(expected_layers(with("0-8/2"), 10, even).unexplained.empty());
    CHECK(expected_layers({}, 10, even).unexplained == std::vector<int>{2, 4, 6, 8});
    const ExpectedLayers stage = expected_layers(with(nullptr, "5-9"), 10, range(0, 4));
    CHECK(stage.unexplained.empty());
    CHECK(stage.expected == 5);
}

TEST_CASE("draft rows may be zero") {
    CountOptions options = with("0-0");
    options.draft_layers_from = 9;
    CHECK(expected_layers(options, 10, std::vector<int>{0, 9}).unexplained.empty());
    CHECK(expected_layers(with("0-0"), 10, std::vector<int>{0, 9}).unexplained == std::vector<int>{9});
}

TEST_CASE("unexplained zero rows are a warning, more than half of the layers an error") {
    // 10 layers without a leading zero row: 5 counted are half of them.
    CHECK(zero_layers(10, range(0, 4)).severity == Severity::warning);
    CHECK(zero_layers(10, range(0, 3)).severity == Severity::error);
    CHECK(zero_layers(10, range(0, 3)).where == "layers 4-9");
    CHECK(zero_layers(10, range(0, 3), with(nullptr, "0-3")).code.empty());
    // The second half of 61 rows: the first four may be dense, 30 of 57 are counted.
    CHECK(zero_layers(61, range(31, 60)).severity == Severity::warning);
    CHECK(zero_layers(61, range(31, 60)).where == "layers 0-30");
    CHECK(zero_layers(61, range(33, 60)).severity == Severity::error);    // 28 of 57
    CHECK(zero_layers(61, range(32, 60)).severity == Severity::warning);  // 29 of 57
    CHECK(zero_layers(43, {20}).severity == Severity::error);
    CHECK(zero_layers(61, range(3, 60)).code.empty());
}
