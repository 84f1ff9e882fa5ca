#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace eplb::cli {

std::string Table::text(const std::string& indent) const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
        for (std::size_t column = 0; column < widths.size(); ++column)
            widths[column] = std::max(widths[column], row.at(column).size());
    }
    std::string text;
    for (const auto& row : rows_) {
        std::string line = indent;
        for (std::size_t column = 0; column < widths.size(); ++column) {
            line += column == 0 ? fmt::format("{:<{}}", row[column], widths[column])
                                : fmt::format("  {:>{}}", row[column], widths[column]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace eplb::cli
