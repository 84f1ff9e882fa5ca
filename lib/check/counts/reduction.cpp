// Counts that are not summed over the ranks look right and are wrong (seen in sgl-project/sglang issue 5275).
#include "check/counts/checks.hpp"

namespace eplb::check {
namespace {

// The window has one rank, so that its share is all of it.
bool only_rank(const CountContext& context) {
    return context.options.recorded_ranks == 1 || (context.window && context.window->members.size() == 1);
}

}  // namespace

Findings check_reduction(const CountContext& context) {
    if (context.reduced_by_format && context.options.reduction == Reduction::per_rank) {
        return {{Severity::error, "REDUCTION_CONFLICT", "",
                 "--reduction per-rank, but this format holds counts that are already summed over the ranks",
                 "drop --reduction"}};
    }
    switch (context.reduction) {
        case Reduction::unknown:
            return {{Severity::info, "REDUCTION_UNKNOWN", "",
                     "the file does not say whether the counts are summed over the ranks; taken as summed",
                     "say --reduction reduced or per-rank"}};
        case Reduction::per_rank:
            if (!context.alone || only_rank(context)) return {};
            return {{Severity::warning, "PER_RANK_COUNTS", "", "the counts of one rank, not of the model",
                     "give the files of all ranks together; --recorded-ranks 1 if only one counted"}};
        case Reduction::reduced:
            return {};
    }
    return {};
}

}  // namespace eplb::check
