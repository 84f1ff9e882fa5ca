#include "fit/migrate.hpp"

#include <algorithm>

#include "check/layout.hpp"
#include "core/error.hpp"
#include "fit/relabel.hpp"

namespace eplb {
namespace {

bool legal_row(const Layout& layout, int layer) {
    Geometry geometry = layout.geometry();
    geometry.layers = 1;
    const auto row = layout.row(layer);
    return check_layout(Layout(geometry, {row.begin(), row.end()})).empty();
}

void require_comparable(const Layout& current, const Layout& wanted) {
    const Geometry &a = current.geometry(), &b = wanted.geometry();
    if (a.layers == b.layers && a.experts == b.experts && a.ranks == b.ranks) return;
    throw Error(ErrorCode::input, "",
                "the current layout has " + describe(a) + ", the new one " + describe(b) + ": nothing can be kept");
}

}  // namespace

std::vector<bool> rows_to_keep(const Layout& current, const LayoutScore& current_score, const Layout& wanted,
                               const LayoutScore& wanted_score, double min_gain) {
    std::vector<bool> keep(current_score.layers.size());
    if (current.geometry() != wanted.geometry()) return keep;
    for (std::size_t layer = 0; layer < keep.size(); ++layer) {
        const auto &before = current_score.layers[layer], &after = wanted_score.layers[layer];
        const bool gains = before && after && 1 - after->step / before->step >= min_gain;
        keep[layer] = !gains && legal_row(current, static_cast<int>(layer));
    }
    return keep;
}

Layout migrate(const Layout& current, const Layout& wanted, const std::vector<bool>& keep) {
    require_comparable(current, wanted);
    const Geometry& geometry = wanted.geometry();
    Layout next(geometry);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        const auto row = next.row(layer);
        if (keep[static_cast<std::size_t>(layer)]) {
            std::ranges::copy(current.row(layer), row.begin());
        } else {
            std::ranges::copy(relabel_row(wanted.row(layer), current.row(layer), geometry.experts, geometry.ranks),
                              row.begin());
        }
    }
    return next;
}

std::vector<int> moved_slots_by_layer(const Layout& current, const Layout& next) {
    require_comparable(current, next);
    const Geometry& geometry = next.geometry();
    std::vector<int> moved;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        moved.push_back(moved_slots(next.row(layer), current.row(layer), geometry.experts, geometry.ranks));
    }
    return moved;
}

}  // namespace eplb
