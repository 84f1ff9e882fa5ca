#include "fit/dispatch_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fit/acceptance.hpp"

namespace eplb {
DispatchSearch::DispatchSearch(ShareEnergy energy, int slots_per_rank, const ShareRule& rule, SharedRow start)
    : energy_(std::move(energy)),
      slots_per_rank_(slots_per_rank),
      ranks_(static_cast<int>(start.row.size()) / slots_per_rank),
      experts_(energy_.experts()),
      rule_(rule),
      row_(std::move(start.row)),
      replicas_(static_cast<std::size_t>(experts_)),
      holds_(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(experts_)),
      hottest_(static_cast<std::size_t>(energy_.steps())),
      changed_(2) {
    for (int slot = 0; slot < static_cast<int>(row_.size()); ++slot) {
        replicas_[static_cast<std::size_t>(expert_at(slot))].push_back({slot, 0});
        set_holds(rank_of(slot), expert_at(slot), true);
    }
    for (int expert = 0; expert < experts_; ++expert) {
        Replicas& replicas = replicas_[static_cast<std::size_t>(expert)];
        if (rule_.model != nullptr) {
            NewReplicas& changed = start_change(expert);
            apply_rule(changed);
            std::swap(replicas, changed.replicas);
            changes_ = 0;
        } else if (start.share.empty()) {
            const int count = static_cast<int>(replicas.size()), others = ranks_ - count;
            for (int i = 0; i < count; ++i) {
                replicas[static_cast<std::size_t>(i)].share = 1 + others / count + (i < others % count ? 1 : 0);
            }
        } else {
            for (Replica& replica : replicas) replica.share = start.share[static_cast<std::size_t>(replica.slot)];
        }
    }
    fixed_.resize(static_cast<std::size_t>(experts_));
    for (int expert = 0; expert < experts_ && !rule_.dealt.empty(); ++expert) {
        slots_scratch_.clear();
        for (const Replica& replica : replicas_[static_cast<std::size_t>(expert)]) {
            slots_scratch_.push_back(SlotId{replica.slot});
        }
        fixed_[static_cast<std::size_t>(expert)] =
            place_moves_streams(*rule_.model, rule_.sources.front(), slots_scratch_) ? 1 : 0;
    }
    rebuild();
    energy_.rescale();
    best_value_ = energy_.value();
    best_.row = row_;
    best_.share.resize(row_.size());
    for (const Replicas& replicas : replicas_) {
        for (const Replica& replica : replicas) best_.share[static_cast<std::size_t>(replica.slot)] = replica.share;
    }
}

bool DispatchSearch::holds(int rank, int expert) const {
    return holds_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(experts_) +
                  static_cast<std::size_t>(expert)] != 0;
}

void DispatchSearch::set_holds(int rank, int expert, bool value) {
    holds_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(experts_) + static_cast<std::size_t>(expert)] =
        value ? 1 : 0;
}

// Loads from scratch: what additions and subtractions have blurred is exact again.
void DispatchSearch::rebuild() {
    energy_.clear();
    for (int expert = 0; expert < experts_; ++expert) {
        for (const Replica& replica : replicas_[static_cast<std::size_t>(expert)]) {
            energy_.place(rank_of(replica.slot), expert, replica.share / ranks_);
        }
    }
    energy_.refresh();
    for (int step = 0; step < energy_.steps(); ++step) {
        hottest_[static_cast<std::size_t>(step)] = energy_.hottest_rank(step);
    }
}

void DispatchSearch::keep_if_better() {
    rebuild();
    if (energy_.value() >= best_value_) return;
    best_value_ = energy_.value();
    best_.row = row_;
    for (const Replicas& replicas : replicas_) {
        for (const Replica& replica : replicas) best_.share[static_cast<std::size_t>(replica.slot)] = replica.share;
    }
}

// Half of the time the hottest rank of a random record slot, since only those cost.
int DispatchSearch::random_rank(Random& random) const {
    if (random.below(2) == 0) return hottest_[random.below(static_cast<std::uint32_t>(hottest_.size()))];
    return static_cast<int>(random.below(static_cast<std::uint32_t>(ranks_)));
}

DispatchSearch::NewReplicas& DispatchSearch::start_change(int expert) {
    NewReplicas& changed = changed_[changes_++];
    changed.expert = expert;
    changed.replicas = replicas_[static_cast<std::size_t>(expert)];
    return changed;
}

void DispatchSearch::apply_rule(NewReplicas& changed) {
    const std::size_t count = changed.replicas.size();
    if (count == 1) {
        changed.replicas.front().share = ranks_;
        return;
    }
    slots_scratch_.resize(count);
    settled_scratch_.resize(count);
    for (std::size_t i = 0; i < count; ++i) slots_scratch_[i] = SlotId{changed.replicas[i].slot};
    const int unsettled =
        settled_sources(*rule_.model, rule_.sources, slots_scratch_, changed.expert, settled_scratch_);
    const bool dealt = !rule_.dealt.empty();
    for (std::size_t i = 0; i < count; ++i) {
        changed.replicas[i].share =
            settled_scratch_[i] +
            (dealt ? rule_.dealt[static_cast<std::size_t>(changed.expert)][i] : unsettled / static_cast<double>(count));
    }
}

namespace {

template <class Replicas>
void move_replica(Replicas& replicas, int from, int to) {
    const auto found =
        std::find_if(replicas.begin(), replicas.end(), [&](auto& replica) { return replica.slot == from; });
    auto moved = *found;
    replicas.erase(found);
    moved.slot = to;
    replicas.insert(std::find_if(replicas.begin(), replicas.end(), [&](auto& replica) { return replica.slot > to; }),
                    moved);
}

}  // namespace

bool DispatchSearch::propose_swap(Random& random) {
    const auto slots = static_cast<std::uint32_t>(slots_per_rank_);
    const int r = random_rank(random), q = static_cast<int>(random.below(static_cast<std::uint32_t>(ranks_)));
    if (r == q) return false;
    const int slot = r * slots_per_rank_ + static_cast<int>(random.below(slots));
    const int other = q * slots_per_rank_ + static_cast<int>(random.below(slots));
    const int a = expert_at(slot), b = expert_at(other);
    if (holds(q, a) || holds(r, b)) return false;
    if (fixed_[static_cast<std::size_t>(a)] != 0 || fixed_[static_cast<std::size_t>(b)] != 0) return false;
    if (!rule_.dealt.empty() && node_of(slot) != node_of(other) && (is_replicated(a) || is_replicated(b))) return false;
    NewReplicas& new_a = start_change(a);
    move_replica(new_a.replicas, slot, other);
    NewReplicas& new_b = start_change(b);
    move_replica(new_b.replicas, other, slot);
    if (rule_.model != nullptr) {
        apply_rule(new_a);
        apply_rule(new_b);
    }
    new_experts_ = {{slot, b}, {other, a}};
    return true;
}

// A slot of an expert f that has others becomes a replica of e.
bool DispatchSearch::propose_replica(Random& random) {
    if (!rule_.dealt.empty()) return false;
    const auto slots = static_cast<std::uint32_t>(row_.size());
    const int slot = static_cast<int>(random.below(slots)), rank = rank_of(slot), f = expert_at(slot);
    if (!is_replicated(f)) return false;
    const int hot = random_rank(random) * slots_per_rank_ +
                    static_cast<int>(random.below(static_cast<std::uint32_t>(slots_per_rank_)));
    const int e = expert_at(hot);
    if (e == f || holds(rank, e)) return false;

    NewReplicas& new_f = start_change(f);
    auto& left = new_f.replicas;
    const auto gone =
        std::find_if(left.begin(), left.end(), [&](const Replica& replica) { return replica.slot == slot; });
    const double freed = gone->share;
    left.erase(gone);
    NewReplicas& new_e = start_change(e);
    auto& grown = new_e.replicas;
    double taken = 0;
    if (rule_.model == nullptr) {
        left[random.below(static_cast<std::uint32_t>(left.size()))].share += freed;
        const auto giver =
            std::find_if(grown.begin(), grown.end(), [&](const Replica& replica) { return replica.slot == hot; });
        taken = random.below(2) == 0 ? std::floor(giver->share / 2)
                                     : random.below(static_cast<std::uint32_t>(giver->share) + 1);
        giver->share -= taken;
    }
    grown.insert(std::find_if(grown.begin(), grown.end(), [&](const Replica& replica) { return replica.slot > slot; }),
                 {slot, taken});
    if (rule_.model != nullptr) {
        apply_rule(new_f);
        apply_rule(new_e);
    }
    new_experts_ = {{slot, e}};
    return true;
}

// Free shares: some source ranks of one replica go to another of the same expert.
bool DispatchSearch::propose_share(Random& random) {
    const int hot = random_rank(random) * slots_per_rank_ +
                    static_cast<int>(random.below(static_cast<std::uint32_t>(slots_per_rank_)));
    const int e = expert_at(hot);
    const Replicas& replicas = replicas_[static_cast<std::size_t>(e)];
    if (replicas.size() < 2) return false;
    const auto count = static_cast<std::uint32_t>(replicas.size());
    const std::uint32_t to = random.below(count);
    const auto from = static_cast<std::uint32_t>(
        std::find_if(replicas.begin(), replicas.end(), [&](const Replica& replica) { return replica.slot == hot; }) -
        replicas.begin());
    if (from == to || replicas[from].share < 1) return false;
    const auto most = static_cast<std::uint32_t>(replicas[from].share);
    const std::uint32_t units = 1 + (random.below(2) == 0 ? 0 : random.below(most));
    NewReplicas& changed = start_change(e);
    changed.replicas[from].share -= units;
    changed.replicas[to].share += units;
    new_experts_.clear();
    return true;
}

// Tells the energy which shares change: old and new replicas are both in slot order.
void DispatchSearch::describe_changes() {
    energy_.begin();
    for (std::size_t i = 0; i < changes_; ++i) {
        const NewReplicas& changed = changed_[i];
        const Replicas& before = replicas_[static_cast<std::size_t>(changed.expert)];
        auto old_one = before.begin();
        auto new_one = changed.replicas.begin();
        while (old_one != before.end() || new_one != changed.replicas.end()) {
            double difference = 0;
            int slot = 0;
            if (new_one == changed.replicas.end() || (old_one != before.end() && old_one->slot < new_one->slot)) {
                slot = old_one->slot;
                difference = -(old_one++)->share;
            } else if (old_one == before.end() || new_one->slot < old_one->slot) {
                slot = new_one->slot;
                difference = (new_one++)->share;
            } else {
                slot = old_one->slot;
                difference = (new_one++)->share - (old_one++)->share;
            }
            if (difference != 0) energy_.change(rank_of(slot), changed.expert, difference / ranks_);
        }
    }
}

void DispatchSearch::commit() {
    energy_.commit();
    for (const auto& [slot, expert] : new_experts_) set_holds(rank_of(slot), expert_at(slot), false);
    for (const auto& [slot, expert] : new_experts_) {
        row_[static_cast<std::size_t>(slot)] = ExpertId{expert};
        set_holds(rank_of(slot), expert, true);
    }
    for (std::size_t i = 0; i < changes_; ++i) {
        std::swap(replicas_[static_cast<std::size_t>(changed_[i].expert)], changed_[i].replicas);
    }
}

void DispatchSearch::run(std::int64_t proposals, const Cooling& cooling, Random random) {
    if (energy_.steps() == 0 || ranks_ == 1) return;
    constexpr int stages_per_look = 8;  // temperature scale renewed, drift removed, best row kept
    constexpr std::uint32_t replica_percent = 5, share_percent = 20;
    const double factor = cooling.factor();
    double k = cooling.first, scale = 0;
    for (int stage = 0; stage < Cooling::stages; ++stage, k *= factor) {
        if (stage % stages_per_look == 0) {
            if (stage > 0) keep_if_better();
            scale = std::max(energy_.value() - energy_.floor(), 0.0) / ranks_;
        }
        for (std::int64_t i = proposals * stage / Cooling::stages; i < proposals * (stage + 1) / Cooling::stages; ++i) {
            changes_ = 0;
            const std::uint32_t kind = random.below(100);
            bool possible = false;
            if (kind < replica_percent) {
                possible = propose_replica(random);
            } else if (kind < replica_percent + share_percent && rule_.model == nullptr) {
                possible = propose_share(random);
            } else {
                possible = propose_swap(random);
            }
            if (!possible) continue;
            describe_changes();
            if (energy_.delta() < k * scale * exponential_variate(random)) commit();
        }
    }
    keep_if_better();
}

}  // namespace eplb
