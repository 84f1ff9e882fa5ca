#include "fit/balanced_table.hpp"

#include <algorithm>
#include <vector>

namespace eplb {
namespace {

struct Quota {
    SlotId slot;
    int left = 0;  // source ranks that the slot still has to serve
};

// The one with the most left among those that `allowed` lets through, lowest slot on ties; null when none has any left.
template <class Allowed>
Quota* fullest(std::vector<Quota>& quotas, Allowed allowed) {
    Quota* best = nullptr;
    for (Quota& quota : quotas) {
        if (quota.left > (best == nullptr ? 0 : best->left) && allowed(quota.slot)) best = &quota;
    }
    return best;
}

}  // namespace

void fill_balanced_layer(DispatchTable& table, int layer, std::span<const ExpertId> row,
                         std::span<const double> ranks_served, std::span<const DispatchSource> sources) {
    std::vector<std::vector<Quota>> quotas_of(static_cast<std::size_t>(table.experts));
    for (std::size_t slot = 0; slot < row.size(); ++slot) {
        quotas_of[static_cast<std::size_t>(row[slot].value)].push_back(
            {SlotId{static_cast<int>(slot)}, static_cast<int>(ranks_served[slot])});
    }
    std::vector<const DispatchSource*> waiting, next;
    for (std::size_t expert = 0; expert < quotas_of.size(); ++expert) {
        std::vector<Quota>& quotas = quotas_of[expert];
        next.clear();
        for (const DispatchSource& source : sources) next.push_back(&source);
        const auto serve = [&](auto allowed) {
            std::swap(waiting, next);
            next.clear();
            for (const DispatchSource* source : waiting) {
                Quota* quota = fullest(quotas, [&](SlotId slot) { return allowed(*source, slot); });
                if (quota == nullptr) {
                    next.push_back(source);
                } else {
                    table.row(source->rank, layer)[expert] = quota->slot;
                    --quota->left;
                }
            }
        };
        serve([](const DispatchSource& source, SlotId slot) { return source.rank_of(slot) == source.rank; });
        serve([](const DispatchSource& source, SlotId slot) { return source.node_of(slot) == source.node(); });
        serve([](const DispatchSource&, SlotId) { return true; });
    }
}

}  // namespace eplb
