// What the readers of text tables share.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/finding.hpp"
#include "files/number_table.hpp"

namespace eplb {

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Is the first line numbers with `separator` between them?
bool begins_with_numbers(std::string_view text, char separator);

// A warning where the last line does not end, so that its last number may have lost digits.
void note_open_end(const NumberTable& table, std::vector<Finding>& findings);

}  // namespace eplb
