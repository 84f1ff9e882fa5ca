#include "check/readings.hpp"

#include <array>

#include "check/layer_agreement.hpp"
#include "core/counts.hpp"
#include "core/geometry.hpp"

namespace eplb {
namespace {

// [record slots, experts], summed over the layers.
std::vector<std::int64_t> sums_over_layers(const Tensor& tensor, const CountStatistics& statistics) {
    const Counts counts({tensor});
    const auto experts = static_cast<std::size_t>(statistics.experts);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(statistics.record_slots) * experts), row(experts);
    for (int slot = 0; slot < statistics.record_slots; ++slot) {
        std::int64_t* const slot_sums = sums.data() + static_cast<std::size_t>(slot) * experts;
        for (int layer = 0; layer < statistics.layers; ++layer) {
            counts.read_row(slot, layer, row);
            for (std::size_t expert = 0; expert < experts; ++expert) slot_sums[expert] += row[expert];
        }
    }
    return sums;
}

// Two layers of one record slot can be equal by chance.
bool convincing(const LayerAgreement& agreement) {
    return agreement.layers.size() >= 3 && agreement.agree();
}

}  // namespace

std::optional<CountAxes> agreeing_axes(const Tensor& tensor, const CountStatistics& statistics) {
    using enum CountAxis;
    const std::array<int, 3> extents{statistics.record_slots, statistics.layers, statistics.experts};
    const std::vector<std::int64_t> over_layers = sums_over_layers(tensor, statistics);
    // The sums over one axis, with the other two.
    struct Sums {
        std::span<const std::int64_t> values;
        std::size_t summed, first, second;  // axes of the file
    };
    const std::array<Sums, 3> all{
        {{statistics.row_totals, 2, 0, 1}, {over_layers, 1, 0, 2}, {statistics.expert_totals, 0, 1, 2}}};
    for (const Sums& sums : all) {
        if (extents[sums.summed] < 2) continue;  // a model has more than one expert
        const int first = extents[sums.first], second = extents[sums.second];
        for (const bool swapped : {false, true}) {
            if (sums.summed == 2 && !swapped) continue;  // the order that was read
            if ((swapped ? first : second) > max_layers) continue;
            const auto width = static_cast<std::size_t>(second);
            const RowTotals totals = swapped ? RowTotals{sums.values, second, first, 1, width}
                                             : RowTotals{sums.values, first, second, width, 1};
            if (!convincing(agreement_of(totals))) continue;
            CountAxes axes(3);
            axes[sums.summed] = experts;
            axes[swapped ? sums.second : sums.first] = slots;
            axes[swapped ? sums.first : sums.second] = layers;
            if (statistics.record_slots == 1 && axes.front() == slots) axes.erase(axes.begin());
            return axes;
        }
    }
    return std::nullopt;
}

}  // namespace eplb
