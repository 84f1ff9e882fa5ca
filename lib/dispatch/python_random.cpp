#include "dispatch/python_random.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace eplb::dispatch {
namespace {

constexpr std::size_t middle = 397;  // the recurrence joins words 0, 1 and 397

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) {
    // init_genrand(19650218), then init_by_array with the one key `seed`.
    state_[0] = 19650218u;
    for (std::size_t i = 1; i < state_size; ++i) {
        state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
    }
    std::size_t i = 1;
    const auto advance = [&] {
        if (++i == state_size) {
            state_[0] = state_[state_size - 1];
            i = 1;
        }
    };
    for (std::size_t round = 0; round < state_size; ++round) {
        state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525u)) + seed;
        advance();
    }
    for (std::size_t round = 0; round < state_size - 1; ++round) {
        state_[i] =
            (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941u)) - static_cast<std::uint32_t>(i);
        advance();
    }
    state_[0] = 0x80000000u;
}

void PythonRandom::refill() {
    const auto twist = [this](std::size_t i, std::size_t next, std::size_t far) {
        const std::uint32_t joined = (state_[i] & 0x80000000u) | (state_[next] & 0x7fffffffu);
        state_[i] = state_[far] ^ (joined >> 1) ^ ((0u - (joined & 1u)) & 0x9908b0dfu);
    };
    // In runs whose inputs they do not write, so that a compiler can do several words at once.
    for (std::size_t i = 0; i < state_size - middle; ++i) twist(i, i + 1, i + middle);
    for (std::size_t i = state_size - middle; i < state_size - 1; ++i) twist(i, i + 1, i + middle - state_size);
    twist(state_size - 1, 0, middle - 1);
    for (std::size_t i = 0; i < state_size; ++i) {
        std::uint32_t word = state_[i];
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c5680u;
        word ^= (word << 15) & 0xefc60000u;
        words_[i] = word ^ (word >> 18);
    }
    next_ = 0;
}

void PythonRandom::sample(std::uint32_t size, std::uint32_t picks, std::vector<std::uint32_t>& positions) {
    // CPython compares the size of a list with that of a set: 21, plus for more than five picks the smallest power of
    // four that is not below 3 * picks (it never is one, so the floating logarithm there cannot round to another).
    std::uint64_t set_size = 21;
    if (picks > 5) {
        std::uint64_t power = 4;
        while (power < 3 * static_cast<std::uint64_t>(picks)) power *= 4;
        set_size += power;
    }
    if (size <= set_size) {
        std::vector<std::uint32_t> pool(size);
        std::iota(pool.begin(), pool.end(), 0u);
        for (std::uint32_t pick = 0; pick < picks; ++pick) {
            const std::uint32_t drawn = below(size - pick);
            positions.push_back(pool[drawn]);
            pool[drawn] = pool[size - pick - 1];
        }
        return;
    }
    const auto first = static_cast<std::ptrdiff_t>(positions.size());
    for (std::uint32_t pick = 0; pick < picks; ++pick) {
        std::uint32_t drawn;
        do {
            drawn = below(size);
        } while (std::find(positions.begin() + first, positions.end(), drawn) != positions.end());
        positions.push_back(drawn);
    }
}

}  // namespace eplb::dispatch
