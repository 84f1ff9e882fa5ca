#include "fit/rank_energy.hpp"

#include "fit/reproducible.hpp"

namespace eplb {
namespace {

float lane(const std::vector<Lanes>& lanes, int record_slot) {
    return lanes[static_cast<std::size_t>(record_slot / lane_count)]
        .values[static_cast<std::size_t>(record_slot % lane_count)];
}

std::vector<Lanes> zeros(std::size_t rows, int vectors) {
    return std::vector<Lanes>(rows * static_cast<std::size_t>(vectors));
}

}  // namespace

RankEnergy::RankEnergy(const SlotShares& shares, std::span<const ExpertId> row, int ranks, float sharpness,
                       const energy::Kernels& kernels)
    : kernels_(kernels),
      shares_(shares),
      ranks_(ranks),
      slots_per_rank_(static_cast<int>(row.size()) / ranks),
      sharpness_goal_(sharpness),
      replicas_(static_cast<std::size_t>(shares.experts)),
      held_(static_cast<std::size_t>(shares.experts) * static_cast<std::size_t>(ranks)) {
    const int vectors = shares.vectors;
    const auto experts = static_cast<std::size_t>(shares.experts), slots = static_cast<std::size_t>(slots_per_rank_);
    for (const ExpertId expert : row) {
        held_[held(static_cast<int>(row_.size()) / slots_per_rank_, expert.value)] = 1;
        ++replicas_[static_cast<std::size_t>(expert.value)];
        row_.push_back(expert.value);
    }
    factors_ = zeros(2 * experts, vectors);
    rank_terms_ = zeros(static_cast<std::size_t>(ranks), vectors);
    scratch_ = zeros(2 * slots, vectors);
    sums_ = gradient_ = sharpness_ = reference_ = empty_ = zeros(1, vectors);
    largest_.resize(static_cast<std::size_t>(vectors) * lane_count);
    hottest_.resize(largest_.size());
    changes_.resize(slots * (slots + 3));
    indices_a_.resize(slots);
    indices_b_ = experts_a_ = experts_b_ = indices_a_;
    arrays_ = {vectors,        shares.values.data(), shares.weights.data(), factors_.data(),   rank_terms_.data(),
               sums_.data(),   gradient_.data(),     sharpness_.data(),     reference_.data(), empty_.data(),
               scratch_.data()};
    rebase();
}

std::vector<ExpertId> RankEnergy::row() const {
    std::vector<ExpertId> result;
    result.reserve(row_.size());
    for (const int expert : row_) result.push_back(ExpertId{expert});
    return result;
}

double RankEnergy::value() const {
    double sum = 0;
    for (int t = 0; t < shares_.slots; ++t) {
        if (shares_.weight(t) == 0) continue;
        const double smooth =
            natural_log(static_cast<double>(lane(sums_, t))) / static_cast<double>(lane(sharpness_, t));
        sum += static_cast<double>(shares_.weight(t)) * (static_cast<double>(lane(reference_, t)) + smooth);
    }
    return sum;
}

double RankEnergy::floor() const {
    const double log_ranks = natural_log(ranks_);
    double sum = 0;
    for (int t = 0; t < shares_.slots; ++t) {
        sum += static_cast<double>(shares_.weight(t)) * (1 + log_ranks / static_cast<double>(lane(sharpness_, t)));
    }
    return sum;
}

double RankEnergy::step() const {
    double sum = 0;
    for (int t = 0; t < shares_.slots; ++t) {
        if (shares_.weight(t) == 0) continue;
        const double above = natural_log(static_cast<double>(largest_[static_cast<std::size_t>(t)])) /
                             static_cast<double>(lane(sharpness_, t));
        sum += static_cast<double>(shares_.weight(t)) * (static_cast<double>(lane(reference_, t)) + above);
    }
    return sum;
}

bool RankEnergy::allowed(const Swap& swap) const {
    const int a = expert_at(swap.rank_a, swap.index_a), b = expert_at(swap.rank_b, swap.index_b);
    return !holds(swap.rank_a, b) && !holds(swap.rank_b, a);
}

bool RankEnergy::allowed(const ReplicaMove& move) const {
    return replicas(expert_at(move.rank, move.index)) >= 2 && !holds(move.rank, move.gaining);
}

float RankEnergy::change(const Swap& swap) const {
    return kernels_.swap_change(arrays_, swap.rank_a, swap.rank_b, expert_at(swap.rank_a, swap.index_a),
                                expert_at(swap.rank_b, swap.index_b));
}

void RankEnergy::find_touched(const ReplicaMove& move, int losing) {
    touched_.clear();
    for (int rank = 0; rank < ranks_; ++rank) {
        const bool gains = holds(rank, move.gaining), loses = holds(rank, losing);
        if (rank != move.rank && (gains || loses)) touched_.push_back({rank, gains, loses});
    }
}

float RankEnergy::change(const ReplicaMove& move) {
    const int losing = expert_at(move.rank, move.index);
    find_touched(move, losing);
    return kernels_.replica_change(arrays_, move.rank, move.gaining, replicas(move.gaining), losing, replicas(losing),
                                   touched_.data(), static_cast<int>(touched_.size()));
}

void RankEnergy::apply(const Swap& swap) {
    const int a = expert_at(swap.rank_a, swap.index_a), b = expert_at(swap.rank_b, swap.index_b);
    kernels_.apply_swap(arrays_, swap.rank_a, swap.rank_b, a, b);
    row_[slot(swap.rank_a, swap.index_a)] = b;
    row_[slot(swap.rank_b, swap.index_b)] = a;
    held_[held(swap.rank_a, a)] = held_[held(swap.rank_b, b)] = 0;
    held_[held(swap.rank_a, b)] = held_[held(swap.rank_b, a)] = 1;
}

void RankEnergy::apply(const ReplicaMove& move) {
    const int losing = expert_at(move.rank, move.index), gaining = move.gaining;
    row_[slot(move.rank, move.index)] = gaining;
    --replicas_[static_cast<std::size_t>(losing)];
    ++replicas_[static_cast<std::size_t>(gaining)];
    held_[held(move.rank, losing)] = 0;
    held_[held(move.rank, gaining)] = 1;
    kernels_.fill_factors(arrays_, losing, replicas(losing));
    kernels_.fill_factors(arrays_, gaining, replicas(gaining));
    kernels_.fill_rank(arrays_, move.rank, &row_[slot(move.rank, 0)], slots_per_rank_);
    find_touched(move, losing);
    for (const energy::Touched& other : touched_) {
        kernels_.fill_rank(arrays_, other.rank, &row_[slot(other.rank, 0)], slots_per_rank_);
    }
    refresh();
}

bool RankEnergy::best_swap(int rank_a, int rank_b, Swap& best, float& change) {
    // Only experts that the other rank does not hold; then every pair of them is an allowed swap.
    const auto candidates = [&](int from, int to, std::vector<int>& indices, std::vector<int>& experts) {
        std::size_t count = 0;
        for (int index = 0; index < slots_per_rank_; ++index) {
            const int expert = expert_at(from, index);
            if (holds(to, expert)) continue;
            indices[count] = index;
            experts[count++] = expert;
        }
        return static_cast<int>(count);
    };
    const int a_count = candidates(rank_a, rank_b, indices_a_, experts_a_);
    const int b_count = candidates(rank_b, rank_a, indices_b_, experts_b_);
    looked_at_ = a_count * b_count;
    if (looked_at_ == 0) return false;
    const int stride = (b_count + 3) / 4 * 4;
    const int least = kernels_.swap_changes(arrays_, rank_a, rank_b, experts_a_.data(), a_count, experts_b_.data(),
                                            b_count, changes_.data(), stride);
    change = changes_[static_cast<std::size_t>(least)];
    best = {rank_a, indices_a_[static_cast<std::size_t>(least / stride)], rank_b,
            indices_b_[static_cast<std::size_t>(least % stride)]};
    return true;
}

void RankEnergy::rebase() {
    kernels_.fill_reference(arrays_, row_.data(), ranks_, slots_per_rank_, replicas_.data(), sharpness_goal_);
    for (int expert = 0; expert < shares_.experts; ++expert) kernels_.fill_factors(arrays_, expert, replicas(expert));
    recompute();
}

void RankEnergy::recompute() {
    for (int rank = 0; rank < ranks_; ++rank) {
        kernels_.fill_rank(arrays_, rank, &row_[slot(rank, 0)], slots_per_rank_);
    }
    refresh();
}

void RankEnergy::refresh() {
    kernels_.refresh(arrays_, ranks_, largest_.data(), hottest_.data());
}

}  // namespace eplb
