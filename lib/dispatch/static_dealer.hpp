// SGLang's static choice, expert after expert: who is served near, and what the seeded fill deals to the others.
#pragma once

#include <span>
#include <vector>

#include "dispatch/fair_fill.hpp"
#include "dispatch/model.hpp"

namespace eplb::dispatch {

// The random streams of one table, between two experts. A copy goes on by itself, so that a search may ask what the
// rows of a layer would be dealt after all layers before it.
class StaticDealer {
  public:
    // `sources` as dispatch_sources() gives them; they must outlive the dealer.
    StaticDealer(const SeededRule& rule, std::span<const DispatchSource> sources);

    // The next expert, in the order layers, then experts: the position in `replicas` (slot order, not empty) that each
    // source uses. Valid until the next call.
    std::span<const int> operator()(std::span<const SlotId> replicas);

  private:
    // Ranks that have drawn the same so far share a stream; they part when one of them draws and another does not.
    struct Stream {
        FairFill fill;
        std::vector<int> ranks;
    };

    void find_near(std::span<const SlotId> replicas);
    void deal(FairFill& fill, std::size_t replicas, std::span<const int> ranks);
    void part_streams();

    const SeededRule* rule_;
    std::span<const DispatchSource> sources_;
    std::vector<std::vector<int>> sources_of_rank_;  // [R]: those whose rows rank r makes
    std::vector<Stream> streams_;
    std::vector<int> near_;     // [R]: replica that the rule prefers for a rank, or -1
    std::vector<int> waiting_;  // [R]: how many ranks before r have none
    int unserved_ = 0;          // ranks without a near replica
    std::vector<int> choice_;   // [sources]
};

}  // namespace eplb::dispatch
