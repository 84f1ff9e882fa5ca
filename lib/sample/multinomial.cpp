#include "sample/multinomial.hpp"

#include <bit>
#include <vector>

namespace eplb {
namespace {

// Adds `trials` draws to counts[first, last), halving the range: each split is one binomial draw. prefix[i] is the sum
// of the first i weights.
void split(Coins& coins, std::int64_t trials, std::span<const std::uint64_t> prefix, std::size_t first,
           std::size_t last, std::span<std::int64_t> counts) {
    if (trials == 0) return;
    if (last - first == 1) {
        counts[first] += trials;
        return;
    }
    const std::size_t middle = first + (last - first) / 2;
    const std::uint64_t left = prefix[middle] - prefix[first], sum = prefix[last] - prefix[first];
    const std::int64_t left_trials = binomial(coins, trials, (left << 32) / sum);
    split(coins, left_trials, prefix, first, middle, counts);
    split(coins, trials - left_trials, prefix, middle, last, counts);
}

}  // namespace

std::int64_t Coins::heads(std::int64_t tosses) {
    std::int64_t total = 0;
    for (; tosses >= 64; tosses -= 64) total += std::popcount(random_.next());
    if (tosses == 0) return total;
    if (left_ < tosses) {
        word_ = random_.next();
        left_ = 64;
    }
    total += std::popcount(word_ & ((std::uint64_t{1} << tosses) - 1));
    word_ >>= tosses;
    left_ -= static_cast<int>(tosses);
    return total;
}

std::int64_t binomial(Coins& coins, std::int64_t trials, std::uint64_t probability) {
    if (probability >> 32 != 0) return trials;
    std::int64_t successes = 0, undecided = trials;
    for (auto bits = static_cast<std::uint32_t>(probability); bits != 0 && undecided != 0; bits <<= 1) {
        const std::int64_t zeros = coins.heads(undecided);
        if (bits >> 31 != 0) {  // a zero is below the probability's one: a success
            successes += zeros;
            undecided -= zeros;
        } else {  // a one is above its zero: a failure
            undecided = zeros;
        }
    }
    return successes;
}

void bounded_multinomial(Coins& coins, std::int64_t trials, std::int64_t limit, std::span<const std::uint32_t> weights,
                         std::span<std::int64_t> counts) {
    std::vector<std::uint64_t> prefix(weights.size() + 1);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        counts[i] = 0;
        prefix[i + 1] = prefix[i] + weights[i];
    }
    while (trials > 0) {
        split(coins, trials, prefix, 0, weights.size(), counts);
        trials = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            if (counts[i] > limit) {
                trials += counts[i] - limit;
                counts[i] = limit;
            }
        }
        if (trials == 0) return;
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            prefix[i + 1] = sum += counts[i] < limit ? weights[i] : 0;
        }
        if (sum == 0) {  // only experts of weight zero have room left
            for (std::size_t i = 0; i < weights.size(); ++i) prefix[i + 1] = sum += counts[i] < limit ? 1 : 0;
        }
    }
}

}  // namespace eplb
