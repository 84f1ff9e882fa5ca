#include "core/record_split.hpp"

#include <fmt/format.h>

#include "core/equal_slots.hpp"
#include "core/error.hpp"

namespace eplb {

std::vector<int> filled_slots(std::span<const std::int64_t> slot_totals) {
    std::vector<int> filled;
    for (std::size_t slot = 0; slot < slot_totals.size(); ++slot) {
        if (slot_totals[slot] != 0) filled.push_back(static_cast<int>(slot));
    }
    return filled;
}

RecordSplit split_record_slots(std::span<const int> filled, Holdout holdout, std::span<const int> first_equal) {
    RecordSplit split;
    const std::size_t all = first_equal.empty() ? filled.size() : static_cast<std::size_t>(distinct(first_equal));
    const std::size_t half = (all + 1) / 2;
    std::vector<bool> held_out(filled.size());
    std::size_t dealt = 0;  // of the record slots that repeat no earlier one
    for (std::size_t position = 0; position < filled.size(); ++position) {
        const std::size_t first = first_equal.empty() ? position : static_cast<std::size_t>(first_equal[position]);
        if (first == position) {
            held_out[position] = (holdout == Holdout::interleave && dealt % 2 == 1) ||
                                 ((holdout == Holdout::halves || holdout == Holdout::last) && dealt >= half);
            ++dealt;
        }
        (held_out[first] ? split.holdout : split.fit).push_back(filled[position]);
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
