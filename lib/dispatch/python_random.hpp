// The draws of CPython's random.Random that SGLang's static dispatch makes, bit for bit.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace eplb::dispatch {

// random.Random(seed): MT19937 (Matsumoto, Nishimura 1998) seeded by init_by_array with the 32-bit limbs of the seed.
// The standard library's mt19937 is the same generator with another seeding, and offers no way to set its state.
class PythonRandom {
  public:
    explicit PythonRandom(std::uint32_t seed);

    std::uint32_t bits32() {  // getrandbits(32)
        if (next_ == state_size) refill();
        return words_[next_++];
    }
    std::uint32_t below(std::uint32_t bound) {  // _randbelow(bound), bound >= 1
        const int unused_bits = std::countl_zero(bound);
        std::uint32_t value;
        do {
            value = bits32() >> unused_bits;
        } while (value >= bound);
        return value;
    }

    // sample(range(size), picks): positions in the order drawn, appended to `positions`. 0 <= picks <= size.
    void sample(std::uint32_t size, std::uint32_t picks, std::vector<std::uint32_t>& positions);

    // shuffle(items), in place.
    template <class Item>
    void shuffle(std::span<Item> items) {
        for (std::size_t last = items.size(); last-- > 1;) {
            std::swap(items[last], items[below(static_cast<std::uint32_t>(last) + 1)]);
        }
    }

  private:
    static constexpr std::size_t state_size = 624;
    void refill();

    std::array<std::uint32_t, state_size> state_{}, words_{};
    std::size_t next_ = state_size;
};

}  // namespace eplb::dispatch
