// A long search for one layer's window objective, over replica counts and placement together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"

namespace eplb {

struct AnnealedRows {
    std::vector<ExpertId> best;  // with the smallest largest rank load met, the given row included
    std::vector<ExpertId> last;  // the coldest: often better than `best` after a few exchanges
};

// Simulated annealing from a legal row [ranks * S]: exchanges of two replicas, and moves that turn a slot of an expert
// with several replicas into one more of another expert. Ends after about `proposals` of them, or when no rank load
// under the even split is above `target` times the mean. The same seed gives the same rows on every machine.
//
// totals: [E], counts of the layer, not all zero.
AnnealedRows anneal_window(std::span<const ExpertId> row, std::span<const std::int64_t> totals, int ranks,
                           double target, std::int64_t proposals, std::uint64_t seed);

}  // namespace eplb
