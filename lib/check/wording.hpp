// How findings write places and lists of numbers.
#pragma once

#include <span>
#include <string>

namespace eplb {

std::string row_place(int record_slot, int layer);               // "record slot 3, layer 7"
std::string cell_place(int record_slot, int layer, int expert);  // "record slot 3, layer 7, expert 12"
std::string expert_place(int layer, int expert);                 // "layer 7, expert 12"

// Ascending numbers as ranges, "0-2, 7, 9-12"; at most `most` ranges, then " and 23 more".
std::string number_ranges(std::span<const int> numbers, int most = 8);

}  // namespace eplb
