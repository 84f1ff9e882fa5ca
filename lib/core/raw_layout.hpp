// A layout file as it stands, before anybody judges it: rows may be ragged and hold anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace eplb {

// Stands in a RawLayout for a value that is no number.
inline constexpr std::int64_t no_number = std::numeric_limits<std::int64_t>::min();

struct RawLayout {
    std::string path;                             // as given; empty for a layout in memory
    std::vector<std::vector<std::int64_t>> rows;  // a vector per layer
    std::vector<std::string> extra_keys;          // keys beside physical_to_logical_map
    // Values that are not written as whole numbers: how many, and the first one with its JSON path. 3.0 is one of them,
    // and stands in the rows as 3.
    std::size_t not_integers = 0;
    std::string first_not_integer, first_not_integer_path;
};

}  // namespace eplb
