#include "core/record_split.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace eplb {

std::vector<int> filled_slots(std::span<const std::int64_t> slot_totals) {
    std::vector<int> filled;
    for (std::size_t slot = 0; slot < slot_totals.size(); ++slot) {
        if (slot_totals[slot] != 0) filled.push_back(static_cast<int>(slot));
    }
    return filled;
}

RecordSplit split_record_slots(std::span<const int> filled, Holdout holdout) {
    RecordSplit split;
    const std::size_t half = (filled.size() + 1) / 2;
    for (std::size_t position = 0; position < filled.size(); ++position) {
        const bool held_out = (holdout == Holdout::interleave && position % 2 == 1) ||
                              ((holdout == Holdout::halves || holdout == Holdout::last) && position >= half);
        (held_out ? split.holdout : split.fit).push_back(filled[position]);
    }
    return split;
}

Holdout parse_holdout(std::string_view name) {
    for (const Holdout holdout : {Holdout::interleave, Holdout::halves, Holdout::last, Holdout::none}) {
        if (name == name_of(holdout)) return holdout;
    }
    throw Error(ErrorCode::usage, "--holdout", fmt::format("'{}' is not interleave, halves, last or none", name));
}

std::string_view name_of(Holdout holdout) {
    switch (holdout) {
        case Holdout::interleave:
            return "interleave";
        case Holdout::halves:
            return "halves";
        case Holdout::last:
            return "last";
        case Holdout::none:
            return "none";
    }
    return "none";
}

}  // namespace eplb
