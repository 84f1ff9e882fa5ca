// SGLang's seeded fair fill: which replica serves each rank that has none near.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "dispatch/python_random.hpp"

namespace eplb::dispatch {

// One stream of draws, as the engine makes one a table: what a call returns depends on all calls before it.
class FairFill {
  public:
    // The engine's literal seed.
    FairFill() : random_(42) {}

    // `ranks` replicas, one for each rank to be served, in rank order: every replica equally often, the remainder
    // sampled, all of it shuffled. `replicas` is not empty. Valid until the next call.
    std::span<const SlotId> operator()(std::span<const SlotId> replicas, std::size_t ranks);

    PythonRandom& random() { return random_; }

  private:
    PythonRandom random_;
    std::vector<SlotId> dealt_;
    std::vector<std::uint32_t> picks_;
};

}  // namespace eplb::dispatch
