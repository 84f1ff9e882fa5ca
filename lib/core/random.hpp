// The project's own random generator: the same numbers on every machine, standard library and compiler.
#pragma once

#include <array>
#include <cstdint>

namespace eplb {

// SplitMix64 step (Steele, Lea, Flood 2014): expands one seed into many; also mixes (seed, layer) into a stream seed.
constexpr std::uint64_t split_mix(std::uint64_t& state) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// An independent stream seed for part `index` of a run seeded with `seed`.
constexpr std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t index) {
    std::uint64_t state = seed;
    state = split_mix(state) ^ (index * 0xd1342543de82ef95u);
    return split_mix(state);
}

// xoshiro256** 1.0 (Blackman, Vigna 2018).
class Random {
  public:
    explicit constexpr Random(std::uint64_t seed) {
        for (std::uint64_t& word : state_) word = split_mix(seed);
    }

    constexpr std::uint64_t next() {
        const std::uint64_t result = rotate(state_[1] * 5, 7) * 9, shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // Uniform in [0, bound), bound >= 1: Lemire's multiply-shift on 32 bits, biased by at most bound / 2^32.
    constexpr std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
    }

    // Uniform in [0, 1), a multiple of 2^-53.
    constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  private:
    static constexpr std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
    std::array<std::uint64_t, 4> state_{};
};

}  // namespace eplb
