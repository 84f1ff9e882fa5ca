// SGLang's seeded fair fill: which replica serves each rank that has none near.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dispatch/python_random.hpp"

namespace eplb::dispatch {

// One stream of draws, as the engine makes one a table: what a call returns depends on all calls before it.
class FairFill {
  public:
    // The engine's literal seed.
    FairFill() : random_(42) {}

    // One of `replicas` >= 1 replicas, by position in their list, for each of `ranks` ranks to be served, in rank
    // order: every replica equally often, the remainder sampled, all of it shuffled. Valid until the next call.
    std::span<const std::uint32_t> operator()(std::size_t replicas, std::size_t ranks);

    PythonRandom& random() { return random_; }

  private:
    PythonRandom random_;
    std::vector<std::uint32_t> dealt_;
    std::vector<std::uint32_t> picks_;
};

}  // namespace eplb::dispatch
