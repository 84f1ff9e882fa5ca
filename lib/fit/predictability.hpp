// How well the record slots of a model predict each other: the difference between topics and noise.
#pragma once

#include <optional>
#include <span>

#include "core/counts.hpp"

namespace eplb {

struct Predictability {
    double r2 = 0;      // <= 1
    double chance = 0;  // what it is on average where nothing but counting noise differs between the slots
};

// Pooled leave-one-out R^2: each of at most 32 record slots is predicted by a ridge regression on the others with the
// same coefficients for all layers. Near 1 where slots are mixtures of a few common causes; near 0 where what differs
// between slots is noise that comes only once. Rows count as their totals: the shares of a row of few counts are mostly
// noise, and those of a row without counts say nothing. Copies of a record slot are one. Empty with fewer than three
// record slots with counts.
//
// layers: [L] of [T, E], the same T everywhere; layers without counts do not take part.
std::optional<Predictability> predictability(std::span<const LayerCounts> layers, int ranks, int threads);

// Of exactly two different record slots: how much they differ, in units of what counting noise makes them differ on
// average (1: noise). Empty for any other number. Arguments as above.
std::optional<double> difference_of_two(std::span<const LayerCounts> layers, int ranks, int threads);

}  // namespace eplb
