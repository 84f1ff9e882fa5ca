// The Metropolis rule without a call of exp or log.
#pragma once

#include "core/random.hpp"

namespace eplb {

// -ln u for u uniform in (0, 1), from a table of 4096 equally likely values: a change is accepted at temperature T with
// probability exp(-change / T) when change < T * exponential_variate(random).
float exponential_variate(Random& random);

}  // namespace eplb
