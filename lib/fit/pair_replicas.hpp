// Replica counts for two slots a rank, where they decide everything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace eplb {

// With two slots a rank, the best placement for given counts pairs the heaviest replica with the lightest, the next
// with the next, and so on (up to distinctness), so only the counts are to be searched: simulated annealing over moves
// of one replica from an expert to another. Starts from `replicas` [E], sum = 2 * ranks, and returns the counts with
// the smallest largest pair met. The same seed gives the same counts on every machine. totals: [E], not all zero.
std::vector<int> anneal_pair_replicas(std::span<const std::int64_t> totals, std::vector<int> replicas, int ranks,
                                      std::int64_t proposals, std::uint64_t seed);

}  // namespace eplb
