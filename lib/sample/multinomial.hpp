// Exact multinomial sampling in integers: the same counts from every compiler and machine.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.hpp"

namespace eplb {

// Fair coins, 64 to a random word.
class Coins {
  public:
    explicit Coins(std::uint64_t seed) : random_(seed) {}
    std::int64_t heads(std::int64_t tosses);  // how many of `tosses` coins show heads

  private:
    Random random_;
    std::uint64_t word_ = 0;
    int left_ = 0;  // unused bits of word_
};

// The number of successes in `trials` with success probability `probability` / 2^32 (0 .. 2^32). Each trial compares a
// uniform number with the probability bit by bit; all trials that are still undecided toss their next bit together, so
// the expected work is trials / 32 words and no logarithm is taken.
std::int64_t binomial(Coins& coins, std::int64_t trials, std::uint64_t probability);

inline constexpr std::uint64_t max_weight_sum = (std::uint64_t{1} << 32) - 1;

// Distributes `trials` over the weights: counts[i] has probability weights[i] / sum(weights) a trial, resolved to
// 2^-32. No count exceeds `limit`: what is above it is drawn again among the others. sum(counts) == trials.
// Needs trials <= limit * weights.size(), 0 < sum(weights) <= max_weight_sum.
void bounded_multinomial(Coins& coins, std::int64_t trials, std::int64_t limit, std::span<const std::uint32_t> weights,
                         std::span<std::int64_t> counts);

}  // namespace eplb
