// A dispatch table from a file, checked against the layout.
#include <fmt/format.h>

#include "core/error.hpp"
#include "dispatch/models.hpp"
#include "dispatch/replica_lists.hpp"

namespace eplb::dispatch {

DispatchTable given_table(const Layout& layout, const DispatchContext& context) {
    if (context.table == nullptr) {
        throw Error(ErrorCode::usage, "--dispatch", "the model table needs a dispatch table",
                    "give --dispatch-table FILE");
    }
    const Geometry& geometry = layout.geometry();
    const DispatchTable& table = *context.table;
    if (table.ranks != geometry.ranks || table.layers != geometry.layers || table.experts != geometry.experts) {
        throw Error(ErrorCode::input, "dispatch table",
                    fmt::format("it is for {} ranks, {} layers, {} experts; the layout has {}, {}, {}", table.ranks,
                                table.layers, table.experts, geometry.ranks, geometry.layers, geometry.experts));
    }
    for (int rank = 0; rank < geometry.ranks; ++rank) {
        for (int layer = 0; layer < geometry.layers; ++layer) {
            const auto map = layout.row(layer);
            const auto row = table.row(rank, layer);
            for (int expert = 0; expert < geometry.experts; ++expert) {
                const int slot = row[static_cast<std::size_t>(expert)].value;
                if (slot >= 0 && slot < geometry.physical_slots() &&
                    map[static_cast<std::size_t>(slot)].value == expert) {
                    continue;
                }
                throw Error(
                    ErrorCode::input, fmt::format("dispatch table, rank {}, layer {}, expert {}", rank, layer, expert),
                    slot < 0 || slot >= geometry.physical_slots()
                        ? fmt::format("slot {} is outside 0..{}", slot, geometry.physical_slots() - 1)
                        : fmt::format("slot {} holds expert {}", slot, map[static_cast<std::size_t>(slot)].value),
                    "the table was made for another layout");
            }
        }
    }
    return table;
}

}  // namespace eplb::dispatch
