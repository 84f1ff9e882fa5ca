#include "dispatch/fair_fill.hpp"

namespace eplb::dispatch {

std::span<const std::uint32_t> FairFill::operator()(std::size_t replicas, std::size_t ranks) {
    dealt_.clear();
    for (std::size_t round = 0; round < ranks / replicas; ++round) {
        for (std::size_t replica = 0; replica < replicas; ++replica) {
            dealt_.push_back(static_cast<std::uint32_t>(replica));
        }
    }
    picks_.clear();
    random_.sample(static_cast<std::uint32_t>(replicas), static_cast<std::uint32_t>(ranks % replicas), picks_);
    for (const std::uint32_t pick : picks_) dealt_.push_back(static_cast<std::uint32_t>(pick));
    random_.shuffle(std::span(dealt_));
    return dealt_;
}

}  // namespace eplb::dispatch
