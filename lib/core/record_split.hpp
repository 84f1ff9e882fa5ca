// How the non-zero record slots are divided into a part to fit on and a part to judge on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace eplb {

enum class Holdout { interleave, halves, last, none };

struct RecordSplit {
    std::vector<int> fit;      // record slots, ascending
    std::vector<int> holdout;  // record slots, ascending; empty: nothing to judge on
};

// The record slots whose total is not zero, ascending. An order in the file is not an order in time.
std::vector<int> filled_slots(std::span<const std::int64_t> slot_totals);

// Splits the filled record slots. interleave: positions 0, 2, ... are fitted on, 1, 3, ... held out. halves: the first
// ceil(n/2) are fitted on. last: as halves, for record slots in the order of recording, so that the newest are held
// out; whoever calls it makes sure of the order. none: everything is fitted on and nothing held out.
// `first_equal` (core/equal_slots.hpp; empty: all differ): record slots with the same counts are dealt as one, that of
// the first, so that nothing is judged on what it was fitted on.
RecordSplit split_record_slots(std::span<const int> filled, Holdout holdout, std::span<const int> first_equal = {});

// Throws Error{usage} that lists the names when `name` is not one of them.
Holdout parse_holdout(std::string_view name);
std::string_view name_of(Holdout holdout);

}  // namespace eplb
