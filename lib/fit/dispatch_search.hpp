// Joint search of the placement of one layer and of the shares that its replicas get.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "dispatch/model.hpp"
#include "fit/schedule.hpp"
#include "fit/share_energy.hpp"

namespace eplb {

// Where the shares of an expert's replicas come from.
struct ShareRule {
    // The engine's rule: shares follow from where the replicas are. Null: any whole number of source ranks may be given
    // to each replica, since the table is ours.
    const DispatchModel* model = nullptr;
    std::vector<DispatchSource> sources;  // [R]
    // [E] or empty. How many of the sources that a seeded fill serves ended at each replica, in slot order. With it the
    // search keeps every expert that has several replicas on the nodes it is on, and where it is when its place decides
    // who draws: that leaves the seeded streams as they are, so that the shares are those of the engine's table and not
    // their mean.
    std::vector<std::vector<int>> dealt;
};

// One layer of a layout with what its replicas get.
struct SharedRow {
    std::vector<ExpertId> row;  // [R*S]
    std::vector<double>
        share;  // [R*S], in source ranks: the replicas of an expert share R. Whole when the rule is free.
};

// Simulated annealing over swaps of two slots, slots that change their expert and, with free shares, source ranks that
// change their replica.
class DispatchSearch {
  public:
    // `energy` holds the counts and no load. `start.share` is used with free shares only; empty: the ranks that hold an
    // expert serve themselves, the others are dealt in turn.
    DispatchSearch(ShareEnergy energy, int slots_per_rank, const ShareRule& rule, SharedRow start);

    // May be called again; goes on from where it ended.
    void run(std::int64_t proposals, const Cooling& cooling, Random random);

    const SharedRow& best() const { return best_; }
    double best_value() const { return best_value_; }  // F of best()

  private:
    struct Replica {
        int slot = 0;
        double share = 0;  // in source ranks
    };
    using Replicas = std::vector<Replica>;  // ascending slots
    struct NewReplicas {
        int expert = 0;
        Replicas replicas;
    };

    int rank_of(int slot) const { return slot / slots_per_rank_; }
    int expert_at(int slot) const { return row_[static_cast<std::size_t>(slot)].value; }
    int node_of(int slot) const { return rank_of(slot) / rule_.sources.front().ranks_per_node; }
    bool is_replicated(int expert) const { return replicas_[static_cast<std::size_t>(expert)].size() > 1; }
    bool holds(int rank, int expert) const;
    void set_holds(int rank, int expert, bool value);

    bool propose_swap(Random& random);
    bool propose_replica(Random& random);
    bool propose_share(Random& random);
    NewReplicas& start_change(int expert);
    void apply_rule(NewReplicas& changed);
    void describe_changes();
    void commit();
    void rebuild();
    void keep_if_better();
    int random_rank(Random& random) const;

    ShareEnergy energy_;
    int slots_per_rank_ = 0, ranks_ = 0, experts_ = 0;
    const ShareRule& rule_;
    std::vector<ExpertId> row_;
    std::vector<Replicas> replicas_;  // [E]
    std::vector<char> holds_;         // [R, E]
    std::vector<char> fixed_;         // [E]: may not be moved without moving the streams
    std::vector<int> hottest_;        // [steps], renewed now and then

    // The proposal: up to two experts with new replicas, up to two slots with new experts.
    std::vector<NewReplicas> changed_;
    std::size_t changes_ = 0;
    std::vector<std::pair<int, int>> new_experts_;  // slot, expert
    std::vector<SlotId> slots_scratch_;
    std::vector<int> settled_scratch_;
    SharedRow best_;
    double best_value_ = 0;
};

}  // namespace eplb
