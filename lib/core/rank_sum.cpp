#include "core/rank_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/counts.hpp"
#include "core/error.hpp"

namespace eplb {
namespace {

using Sequence = std::vector<std::int64_t>;

const Sequence* sequence_of(const RankShare& share) {
    return share.window && !share.window->sequence.empty() ? &share.window->sequence : nullptr;
}

CommonPasses by_place(std::span<const RankShare> shares) {
    CommonPasses passes;
    const std::int64_t slots = shares.front().counts->shape[0];
    for (const RankShare& share : shares) {
        passes.agree = passes.agree && share.counts->shape[0] == slots;
        const Sequence* const sequence = sequence_of(share);
        if (!sequence) continue;
        if (passes.sequence.empty()) passes.sequence = *sequence;
        passes.agree = passes.agree && *sequence == passes.sequence;
    }
    passes.left_out.resize(shares.size());
    if (!passes.agree) return passes;
    std::vector<int> every(static_cast<std::size_t>(slots));
    std::iota(every.begin(), every.end(), 0);
    passes.record_slots.assign(shares.size(), every);
    return passes;
}

}  // namespace

CommonPasses common_passes(std::span<const RankShare> shares) {
    const bool all_know = std::all_of(shares.begin(), shares.end(), sequence_of);
    if (!all_know) return by_place(shares);
    if (CommonPasses same = by_place(shares); same.agree) return same;

    CommonPasses passes;
    passes.sequence = *sequence_of(shares.front());
    for (const RankShare& share : shares) {
        Sequence both;
        std::set_intersection(passes.sequence.begin(), passes.sequence.end(), sequence_of(share)->begin(),
                              sequence_of(share)->end(), std::back_inserter(both));
        passes.sequence = std::move(both);
    }
    for (const RankShare& share : shares) {
        const Sequence& sequence = *sequence_of(share);
        std::vector<int>& slots = passes.record_slots.emplace_back();
        for (const std::int64_t pass : passes.sequence) {
            const auto place = std::lower_bound(sequence.begin(), sequence.end(), pass);
            slots.push_back(static_cast<int>(place - sequence.begin()));
        }
        passes.left_out.push_back(static_cast<int>(sequence.size() - slots.size()));
    }
    return passes;
}

Tensor sum_of_ranks(std::span<const RankShare> shares, const CommonPasses& passes) {
    std::vector<Counts> ranks;
    for (const RankShare& share : shares) ranks.emplace_back(std::vector{*share.counts});
    const std::size_t slots = passes.record_slots.front().size();
    const int layers = ranks.front().layers(), experts = ranks.front().experts();
    const auto width = static_cast<std::size_t>(experts);
    std::vector<std::int64_t> row(width), values(slots * static_cast<std::size_t>(layers) * width);
    std::int64_t* sums = values.data();
    for (std::size_t slot = 0; slot < slots; ++slot) {
        for (int layer = 0; layer < layers; ++layer, sums += width) {
            for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
                ranks[rank].read_row(passes.record_slots[rank][slot], layer, row);
                for (std::size_t expert = 0; expert < width; ++expert) {
                    if (!__builtin_add_overflow(sums[expert], row[expert], &sums[expert])) continue;
                    throw Error(ErrorCode::input,
                                fmt::format("record slot {}, layer {}, expert {}", slot, layer, expert),
                                "the sum of the counts of all ranks is above 2^63 - 1");
                }
            }
        }
    }
    return make_count_tensor(std::move(values), static_cast<int>(slots), layers, experts);
}

}  // namespace eplb
