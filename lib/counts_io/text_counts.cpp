#include "counts_io/text_counts.hpp"

namespace eplb {

bool begins_with_numbers(std::string_view text, char separator) {
    constexpr std::string_view of_numbers = "0123456789.eE+- ";
    const std::string_view line = first_line(text);
    if (line.empty() || std::string_view("0123456789-").find(line.front()) == std::string_view::npos) return false;
    for (const char c : line) {
        if (c != separator && of_numbers.find(c) == std::string_view::npos) return false;
    }
    return true;
}

void note_open_end(const NumberTable& table, std::vector<Finding>& findings) {
    if (!table.open_end) return;
    findings.push_back({Severity::warning, "LAST_LINE_OPEN", table.place(table.rows - 1),
                        "the last line does not end: its last number may have lost digits",
                        "dump or copy the file again; a file written by hand wants a line end"});
}

}  // namespace eplb
