// What is known of a recorded window beyond its counts: from a recorder's sidecar, or from a format that keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eplb {

// Where a count file has facts, its record slots are in the order of recording.
struct WindowFacts {
    std::string name;          // the files of one window carry one name; may be empty
    std::optional<int> rank;   // whose share the counts are; absent: summed over the members
    std::vector<int> members;  // ranks that make up the whole window, ascending; empty: not known
    std::vector<std::int64_t>
        sequence;                  // pass number of each of the leading record slots, ascending; the rest is unfilled
    std::int64_t overwritten = 0;  // passes that the ring lost before the first
    std::vector<std::string> layouts;  // digests of the layouts in force, for comparing the files of one window
};

}  // namespace eplb
