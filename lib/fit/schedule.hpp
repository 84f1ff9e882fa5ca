// How the annealer cools down and how it spends its work.
#pragma once

#include <cstdint>

namespace eplb {

// Work is counted, never timed: results do not depend on the machine. One unit is about half a nanosecond of one core
// of the machine the constants were measured on; the ratios between the costs are what matters.
using Work = std::int64_t;

struct Cooling {
    // The temperature of a stage is k * (F - F_floor) / R, k falling geometrically from `first` to `last`. Values:
    // docs/theory.md, "The annealer".
    double first = 0.2, last = 0.003;
    static constexpr int stages = 256;  // a power of two, see factor()

    double factor() const;  // (last / first)^(1 / stages)
};

// Costs in half nanoseconds of what the annealer does, for V vectors of record slots. Measured, docs/theory.md.
struct WorkModel {
    int ranks = 0, slots_per_rank = 0, experts = 0, vectors = 0;

    Work proposal() const { return 100 + 7 * Work{vectors}; }
    Work swap() const { return 20 * Work{vectors}; }
    Work refresh() const { return 5 * Work{ranks} * vectors; }
    Work scan(int swaps) const {
        return 160 + slots_per_rank * (8 + 6 * Work{vectors}) + swaps * (8 + 26 * Work{vectors} / 10);
    }
    Work replica_proposal(int replicas) const { return 150 + 2 * ranks + (60 + 4 * Work{replicas}) * vectors; }
    Work replica_move(int replicas) const { return 2 * Work{replicas} * (slots_per_rank + 15) * vectors + refresh(); }
    Work recompute() const { return 2 * Work{ranks} * slots_per_rank * vectors + refresh(); }
    Work rebase() const { return 50 * Work{experts} * vectors + recompute(); }
};

}  // namespace eplb
