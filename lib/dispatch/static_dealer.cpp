#include "dispatch/static_dealer.hpp"

#include <algorithm>
#include <numeric>

#include "dispatch/models.hpp"

namespace eplb::dispatch {

StaticDealer::StaticDealer(const SeededRule& rule, std::span<const DispatchSource> sources)
    : rule_(&rule), sources_(sources), choice_(sources.size()) {
    int ranks = 0;
    for (const DispatchSource& source : sources) ranks = std::max(ranks, source.rank + 1);
    sources_of_rank_.resize(static_cast<std::size_t>(ranks));
    for (std::size_t source = 0; source < sources.size(); ++source) {
        sources_of_rank_[static_cast<std::size_t>(sources[source].rank)].push_back(static_cast<int>(source));
    }
    near_.resize(static_cast<std::size_t>(ranks));
    waiting_.resize(static_cast<std::size_t>(ranks));
    streams_.resize(1);
    streams_.front().ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(streams_.front().ranks.begin(), streams_.front().ranks.end(), 0);
}

void StaticDealer::find_near(std::span<const SlotId> replicas) {
    const DispatchSource& any = sources_.front();
    std::fill(near_.begin(), near_.end(), -1);
    if (prefers_node(*rule_, any, replicas)) {
        // Backwards, so that the first replica of a node is the one that stays.
        for (std::size_t i = replicas.size(); i-- > 0;) {
            const auto first =
                static_cast<std::size_t>(any.node_of(replicas[i])) * static_cast<std::size_t>(any.ranks_per_node);
            const auto last = std::min(first + static_cast<std::size_t>(any.ranks_per_node), near_.size());
            std::fill(near_.begin() + static_cast<std::ptrdiff_t>(first),
                      near_.begin() + static_cast<std::ptrdiff_t>(last), static_cast<int>(i));
        }
    }
    for (std::size_t i = replicas.size(); i-- > 0;) {
        near_[static_cast<std::size_t>(any.rank_of(replicas[i]))] = static_cast<int>(i);
    }
    unserved_ = 0;
    for (std::size_t rank = 0; rank < near_.size(); ++rank) {
        waiting_[rank] = unserved_;
        unserved_ += near_[rank] < 0;
    }
}

// A stream whose ranks are not all served near, nor all by the fill, becomes two.
void StaticDealer::part_streams() {
    for (std::size_t i = 0, count = streams_.size(); i < count; ++i) {
        std::vector<int>& ranks = streams_[i].ranks;
        const auto middle = std::stable_partition(ranks.begin(), ranks.end(),
                                                  [&](int rank) { return near_[static_cast<std::size_t>(rank)] < 0; });
        if (middle == ranks.begin() || middle == ranks.end()) continue;
        Stream served{streams_[i].fill, {middle, ranks.end()}};
        ranks.erase(middle, ranks.end());
        streams_.push_back(std::move(served));
    }
}

// The rows that `ranks` make from the complete list of replicas.
void StaticDealer::deal(FairFill& fill, std::size_t replicas, std::span<const int> ranks) {
    const auto dealt = fill(replicas, static_cast<std::size_t>(unserved_));
    for (const int rank : ranks) {
        for (const int source : sources_of_rank_[static_cast<std::size_t>(rank)]) {
            const auto row = static_cast<std::size_t>(sources_[static_cast<std::size_t>(source)].table_row(*rule_));
            choice_[static_cast<std::size_t>(source)] =
                near_[row] >= 0 ? near_[row] : static_cast<int>(dealt[static_cast<std::size_t>(waiting_[row])]);
        }
    }
}

std::span<const int> StaticDealer::operator()(std::span<const SlotId> replicas) {
    if (replicas.size() == 1 && !rule_->deals_single) {
        std::fill(choice_.begin(), choice_.end(), 0);
        return choice_;
    }
    find_near(replicas);
    if (!rule_->own_streams) {
        deal(streams_.front().fill, replicas.size(), streams_.front().ranks);
        return choice_;
    }
    // A rank with a near replica has shortened its list to that one: all rows that it makes hold it, and it draws
    // nothing.
    for (std::size_t rank = 0; rank < near_.size(); ++rank) {
        if (near_[rank] < 0) continue;
        for (const int source : sources_of_rank_[rank]) choice_[static_cast<std::size_t>(source)] = near_[rank];
    }
    part_streams();
    for (Stream& stream : streams_) {
        if (near_[static_cast<std::size_t>(stream.ranks.front())] < 0) {
            deal(stream.fill, replicas.size(), stream.ranks);
        }
    }
    return choice_;
}

}  // namespace eplb::dispatch
