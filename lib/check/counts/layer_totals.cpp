// In one record slot every MoE layer routes the same tokens, so their totals are equal. Judged is what a fit rests on,
// tokens: the totals of the window, and the share of the counts in record slots whose layers differ; a tiny pass that
// is off by a few counts moves neither. Half of the public SGLang files differ by up to 4.7e-4: up to 1e-3 is a
// warning.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check/counts/checks.hpp"
#include "check/counts/mismatch_causes.hpp"
#include "check/layer_agreement.hpp"
#include "check/readings.hpp"
#include "check/wording.hpp"

namespace eplb::check {
namespace {

std::string layers_of(const LayerPair& pair) {
    return fmt::format("layers {} and {}", pair.low_layer, pair.high_layer);
}

std::string totals_of(const LayerPair& pair) {
    return fmt::format("layer {} counts {} and layer {} counts {}", pair.low_layer, pair.low, pair.high_layer,
                       pair.high);
}

double spread(const LayerPair& pair) {
    return static_cast<double>(pair.difference()) / static_cast<double>(pair.high);
}

std::string share_text(const LayerAgreement& agreement) {
    return fmt::format("{} of {} record slots, with {:.3g} % of the counts, have layers that differ by more than 0.001",
                       agreement.differing_slots, agreement.slots.size(),
                       100 * static_cast<double>(agreement.differing_counts) / static_cast<double>(agreement.total));
}

std::string remedy(const CountContext& context, const LayerAgreement& agreement) {
    if (const auto axes = agreeing_axes(context.tensor, context.statistics)) {
        return fmt::format("the axes stand in another order: the layers agree when they are read as {}: give --axes {}",
                           axes_text(*axes), axes_text(*axes));
    }
    std::string causes = fmt::format("{}", fmt::join(mismatch_causes(context, agreement), "; or "));
    if (causes.empty()) {
        causes = "layers were recorded partly, under a wrong index, or from different passes: record again";
    }
    return causes + "; where the totals are known to be right, --accept LAYER_TOTAL_MISMATCH";
}

}  // namespace

Findings check_layer_totals(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const LayerAgreement agreement = agreement_of(row_totals_of(statistics));
    if (agreement.equal()) return {};
    if (agreement.agree()) {
        return {{Severity::warning, "LAYER_TOTAL_MISMATCH", layers_of(agreement.window),
                 fmt::format("{} in the window (spread {:.2g}, up to 0.001 is small); {}", totals_of(agreement.window),
                             spread(agreement.window), share_text(agreement)),
                 "small deviations come from padding, draft passes, dummy passes or rounded counts; what is fitted on "
                 "them is hardly touched"}};
    }
    const std::string hint = remedy(context, agreement);
    if (agreement.window.differs()) {
        return {{Severity::error, "LAYER_TOTAL_MISMATCH", layers_of(agreement.window),
                 fmt::format("{} in the window (spread {:.2g}, above 0.001); {}", totals_of(agreement.window),
                             spread(agreement.window), share_text(agreement)),
                 hint}};
    }
    return {{Severity::error, "LAYER_TOTAL_MISMATCH",
             fmt::format("record slot {}, {}", agreement.worst_slot, layers_of(agreement.worst)),
             fmt::format("{} in this record slot (spread {:.2g}); {}, where 5 % is much", totals_of(agreement.worst),
                         spread(agreement.worst), share_text(agreement)),
             hint}};
}

}  // namespace eplb::check
