// Rows of a layout written as plain numbers.
#pragma once

#include <vector>

#include "core/ids.hpp"

namespace eplb::test {

inline std::vector<ExpertId> row_of(const std::vector<int>& experts) {
    std::vector<ExpertId> row;
    for (const int expert : experts) row.push_back(ExpertId{expert});
    return row;
}

}  // namespace eplb::test
