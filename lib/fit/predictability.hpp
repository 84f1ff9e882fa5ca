// How well the record slots of a model predict each other: the difference between topics and noise.
#pragma once

#include <optional>
#include <span>

#include "core/counts.hpp"

namespace eplb {

// Pooled leave-one-out R^2, <= 1: each of at most 32 record slots is predicted by a ridge regression on the others with
// the same coefficients for all layers. Near 1 where slots are mixtures of a few common causes; near 0 where what
// differs between slots is noise that comes only once. Empty with fewer than three record slots with counts.
//
// layers: [L] of [T, E], the same T everywhere; layers without counts do not take part.
std::optional<double> predictability(std::span<const LayerCounts> layers, int ranks, int threads);

}  // namespace eplb
