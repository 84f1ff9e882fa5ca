// The counts of one window whose ranks counted apart: which record slots are the same pass, and their sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "core/window_facts.hpp"

namespace eplb {

// One rank's counts of the window.
struct RankShare {
    const Tensor* counts = nullptr;       // [record slots, layers, experts]
    const WindowFacts* window = nullptr;  // null where nothing is known
};

struct CommonPasses {
    // [share][pass]: the record slot of the share that holds the pass. All are equally long.
    std::vector<std::vector<int>> record_slots;
    std::vector<std::int64_t> sequence;  // pass number of each of the leading passes, as far as the shares know it
    std::vector<int> left_out;           // [share] passes of it that not every share has
    bool agree = true;                   // false: nothing says which passes are the same (`record_slots` is empty)
};

// The passes that every share has. Where all shares know the numbers of their passes, equal numbers are equal passes;
// shares of the same numbers keep their unfilled record slots. Otherwise record slots at the same place are the same
// pass, and the shares must have equally many.
CommonPasses common_passes(std::span<const RankShare> shares);

// The sum over the shares, [passes, layers, experts]. The shares agree in layers and experts. Throws Error{input} with
// the place when a sum is above 2^63 - 1.
Tensor sum_of_ranks(std::span<const RankShare> shares, const CommonPasses& passes);

}  // namespace eplb
