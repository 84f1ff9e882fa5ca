#include "dispatch/table_faults.hpp"

#include <fmt/format.h>

#include <vector>

namespace eplb {

TableFaults table_faults(const DispatchTable& table, const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    TableFaults faults;
    if (table.ranks != geometry.ranks || table.layers != geometry.layers || table.experts != geometry.experts) {
        faults.other_shape = true;
        faults.what = fmt::format("it is for {} ranks, {} layers, {} experts; the layout has {}, {}, {}", table.ranks,
                                  table.layers, table.experts, geometry.ranks, geometry.layers, geometry.experts);
        return faults;
    }
    const auto slots = static_cast<std::size_t>(geometry.physical_slots());
    std::vector<char> used(slots * static_cast<std::size_t>(geometry.layers));
    for (int rank = 0; rank < geometry.ranks; ++rank) {
        for (int layer = 0; layer < geometry.layers; ++layer) {
            const auto map = layout.row(layer);
            const auto row = table.row(rank, layer);
            for (int expert = 0; expert < geometry.experts; ++expert) {
                const int slot = row[static_cast<std::size_t>(expert)].value;
                const bool exists = slot >= 0 && slot < geometry.physical_slots();
                const int held = exists ? map[static_cast<std::size_t>(slot)].value : -1;
                if (exists) used[static_cast<std::size_t>(layer) * slots + static_cast<std::size_t>(slot)] = 1;
                if (held == expert) continue;
                if (!faults.any()) {
                    faults.where = fmt::format("rank {}, layer {}, expert {}", rank, layer, expert);
                    faults.what = exists ? fmt::format("slot {} holds expert {}", slot, held)
                                         : fmt::format("slot {} is outside 0..{}", slot, slots - 1);
                }
                ++(exists ? faults.wrong_expert : faults.out_of_range);
            }
        }
    }
    for (const char use : used) faults.unused_replicas += use == 0;
    return faults;
}

}  // namespace eplb
