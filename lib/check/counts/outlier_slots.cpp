// A warm-up, dummy or profiling pass routes tokens that all look alike, so it hits few experts, and others than real
// traffic does. A single one with a tenth of the counts moves replicas to the wrong experts.
//
// Distance of record slot t from the others, over the layers, with n assignments in a row, c of them on expert e, and q
// the share of e in the other record slots:
//     d = (sum c(c-1)/(n(n-1)) - 2 sum c q/n + sum q^2) / sum q^2,
// the squared difference of the shares, in units of what the others concentrate. c(c-1)/(n(n-1)) estimates the squared
// share without bias, so small rows are not far away because of their sampling noise.
#include <fmt/format.h>

#include <algorithm>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"
#include "core/counts.hpp"
#include "core/equal_slots.hpp"

namespace eplb::check {
namespace {

// docs/reference.md has what real and made-up counts reach: at most 2.3 and 5.8 times the median in real ones.
constexpr double least_distance = 2, times_median = 7;
constexpr double least_share = 0.02;     // of all counts, in the record slots found together
constexpr double least_collisions = 40;  // sum c(c-1): with fewer the distance is noise
constexpr int least_record_slots = 5;    // distinct ones: the median must be that of ordinary ones

// Of one record slot, summed over the layers with weight n(n-1).
struct Concentration {
    double own = 0, cross = 0, others = 0;  // sum c(c-1), and its counterparts sum c q and sum q^2
    double pairs = 0;                       // sum n(n-1)

    double distance() const { return others > 0 ? (own - 2 * cross + others) / others : 0; }
};

Concentration concentration_of(const CountStatistics& statistics, const Counts& counts, int slot,
                               std::vector<std::int64_t>& row) {
    Concentration sum;
    for (int layer = 0; layer < statistics.layers; ++layer) {
        const auto n = static_cast<double>(statistics.row_totals[statistics.row(slot, layer)]);
        const double rest = static_cast<double>(statistics.layer_totals[static_cast<std::size_t>(layer)]) - n;
        if (n < 2 || rest < 2) continue;
        counts.read_row(slot, layer, row);
        const std::size_t first = statistics.cell(layer, 0);
        double own = 0, cross = 0, others = 0;
        for (std::size_t expert = 0; expert < row.size(); ++expert) {
            const auto c = static_cast<double>(row[expert]);
            const double r = static_cast<double>(statistics.expert_totals[first + expert]) - c;
            own += c * (c - 1);
            cross += c * r;
            others += r * (r - 1);
        }
        const double pairs = n * (n - 1);
        sum.own += own;
        sum.cross += cross * (n - 1) / rest;
        sum.others += others / (rest * (rest - 1)) * pairs;
        sum.pairs += pairs;
    }
    return sum;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

Findings check_outlier_slots(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    if (distinct(statistics.first_equal) < least_record_slots) return {};
    const Counts counts({context.tensor});
    std::vector<std::int64_t> row(static_cast<std::size_t>(statistics.experts));
    std::vector<Concentration> found;
    std::vector<double> distances;
    for (const int slot : statistics.filled) {
        found.push_back(concentration_of(statistics, counts, slot, row));
        distances.push_back(found.back().distance());
    }
    const double usual = median(distances);
    std::vector<int> outliers;
    std::int64_t total = 0;
    std::size_t worst = 0;
    for (std::size_t index = 0; index < found.size(); ++index) {
        if (distances[index] < least_distance || distances[index] < times_median * usual) continue;
        if (found[index].own < least_collisions) continue;
        if (outliers.empty() || distances[index] > distances[worst]) worst = index;
        outliers.push_back(statistics.filled[index]);
        total += statistics.slot_totals[static_cast<std::size_t>(outliers.back())];
    }
    const double share = static_cast<double>(total) / static_cast<double>(statistics.total);
    if (outliers.empty() || share < least_share) return {};
    const bool one = outliers.size() == 1;
    return {{Severity::warning, "OUTLIER_RECORD_SLOTS", fmt::format("record slots {}", number_ranges(outliers)),
             fmt::format("{} record slot{} with {:.1f} % of the counts {} unlike the others: as concentrated as {:.1f} "
                         "equally busy experts where the others are as {:.1f} (distance {:.1f}, median {:.2f}; record "
                         "slot {})",
                         outliers.size(), one ? "" : "s", 100 * share, one ? "is" : "are",
                         found[worst].pairs / found[worst].own, found[worst].pairs / found[worst].others,
                         distances[worst], usual, statistics.filled[worst]),
             fmt::format("a warm-up, dummy or profiling pass looks like this: leave it out with --drop-slots {}{}",
                         context.alone ? "" : context.path.substr(context.path.rfind('/') + 1) + ":",
                         IndexList::of(outliers).text())}};
}

}  // namespace eplb::check
