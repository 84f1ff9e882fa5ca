#include "dispatch/fair_fill.hpp"

namespace eplb::dispatch {

std::span<const SlotId> FairFill::operator()(std::span<const SlotId> replicas, std::size_t ranks) {
    dealt_.clear();
    for (std::size_t round = 0; round < ranks / replicas.size(); ++round) {
        dealt_.insert(dealt_.end(), replicas.begin(), replicas.end());
    }
    picks_.clear();
    random_.sample(static_cast<std::uint32_t>(replicas.size()), static_cast<std::uint32_t>(ranks % replicas.size()),
                   picks_);
    for (const std::uint32_t pick : picks_) dealt_.push_back(replicas[pick]);
    random_.shuffle(std::span(dealt_));
    return dealt_;
}

}  // namespace eplb::dispatch
