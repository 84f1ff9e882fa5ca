#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "dispatch/fair_fill.hpp"
#include "dispatch/python_random.hpp"

using namespace eplb;
using dispatch::FairFill;
using dispatch::PythonRandom;

namespace {

std::vector<std::uint32_t> draws_below(std::uint32_t bound, int number) {
    PythonRandom random(42);
    std::vector<std::uint32_t> drawn;
    for (int i = 0; i < number; ++i) drawn.push_back(random.below(bound));
    return drawn;
}

std::vector<int> fill(FairFill& stream, const std::vector<int>& replicas, std::size_t ranks) {
    std::vector<int> dealt;
    for (const std::uint32_t position : stream(replicas.size(), ranks)) dealt.push_back(replicas[position]);
    return dealt;
}

// 32-bit words that a stream has consumed: where its next word stands in a fresh one.
int words_consumed(FairFill stream) {
    const std::uint32_t a = stream.random().bits32(), b = stream.random().bits32();
    PythonRandom fresh(42);
    std::uint32_t before = fresh.bits32();
    for (int words = 0; words < 1000; ++words) {
        const std::uint32_t word = fresh.bits32();
        if (before == a && word == b) return words;
        before = word;
    }
    return -1;
}

}  // namespace

// Numbers from CPython 3.11: random.Random(42).

TEST_CASE("the stream of seed 42 is CPython's") {
    PythonRandom random(42);
    CHECK(random.bits32() == 2746317213u);
    CHECK(random.bits32() == 478163327u);
    CHECK(random.bits32() == 107420369u);
    CHECK(random.bits32() == 3184935163u);
    CHECK(random.bits32() == 1181241943u);
}

TEST_CASE("a bounded draw takes the top bits and rejects what is too large") {
    CHECK(draws_below(2, 12) == std::vector<std::uint32_t>{0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0});
    CHECK(draws_below(14, 8) == std::vector<std::uint32_t>{10, 1, 0, 11, 4, 3, 3, 2});
}

TEST_CASE("a fair fill on a fresh stream deals what the engine deals and consumes as many words") {
    struct Case {
        std::vector<int> replicas;
        std::size_t ranks;
        std::vector<int> dealt;
        int words;
    };
    const std::vector<Case> cases{
        {{3, 9}, 3, {3, 9, 3}, 5},
        {{3, 9}, 7, {9, 3, 3, 9, 3, 9, 3}, 8},
        {{1, 4, 7}, 13, {7, 7, 4, 1, 4, 7, 7, 7, 1, 1, 4, 1, 4}, 17},
        {{0, 5, 10, 15}, 12, {15, 5, 10, 0, 5, 10, 15, 15, 0, 0, 5, 10}, 17},
        {{5}, 4, {5, 5, 5, 5}, 5},
    };
    for (const Case& example : cases) {
        FairFill stream;
        CHECK(fill(stream, example.replicas, example.ranks) == example.dealt);
        CHECK(words_consumed(stream) == example.words);
    }
}

TEST_CASE("fair fills chained on one stream go on where the last one stopped") {
    FairFill stream;
    CHECK(fill(stream, {3, 9}, 3) == std::vector<int>{3, 9, 3});
    CHECK(words_consumed(stream) == 5);
    CHECK(fill(stream, {1, 4, 7}, 13) == std::vector<int>{1, 7, 4, 1, 7, 4, 1, 1, 4, 7, 4, 7, 1});
    CHECK(words_consumed(stream) == 25);
    CHECK(fill(stream, {0, 5, 10, 15}, 14) == std::vector<int>{5, 10, 5, 5, 5, 0, 10, 0, 15, 15, 10, 0, 15, 10});
    CHECK(words_consumed(stream) == 46);
}

TEST_CASE("samples go through a list or a set as CPython decides") {
    struct Case {
        std::uint32_t size, picks;
        std::vector<std::uint32_t> positions;
    };
    const std::vector<Case> chained{
        {22, 5, {20, 3, 0, 8, 7}},
        {22, 6, {7, 4, 3, 17, 2, 13}},
        {85, 6, {4, 3, 11, 27, 29, 64}},
        {86, 6, {77, 3, 71, 25, 83, 69}},
        {90, 3, {53, 28, 57}},
        {400, 22, {301, 142, 3,  388, 81, 357, 216, 174, 79,  110, 390,
                   172, 52,  47, 194, 49, 183, 176, 309, 135, 22,  373}},
        {23, 22, {14, 17, 3, 12, 2, 21, 9, 11, 16, 20, 15, 1, 0, 13, 4, 19, 6, 7, 10, 22, 5, 18}},
    };
    PythonRandom random(42);
    for (const Case& example : chained) {
        std::vector<std::uint32_t> positions;
        random.sample(example.size, example.picks, positions);
        CHECK(positions == example.positions);
    }
}
