// Text tables of numbers: a line a row, cells between commas or tabs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/number_list.hpp"

namespace eplb {

struct NumberTable {
    std::vector<std::string_view> header;  // the cells of the first line, where the table has one
    std::int64_t rows = 0, columns = 0;
    NumberList cells;       // row-major
    bool open_end = false;  // the last line does not end: the text may have been cut inside its last number

    // "line 12" of the text, for row 0 and up.
    std::string place(std::int64_t row) const;
};

struct TableSyntax {
    char separator = ',';
    bool has_header = false;
    bool closing_separator = false;  // a separator after the last cell of a line is no empty cell
};

// Throws Error{input} with line and column: TRUNCATED (no row; a last line that is short and does not end), MALFORMED
// (no number, a number beyond 64 bits, a row of another length). Empty lines are allowed at the end only. The text must
// outlive the header.
NumberTable parse_number_table(std::string_view text, const TableSyntax& syntax);

// The first line without its end, for telling what a text is; at most `most` bytes of it.
std::string_view first_line(std::string_view text, std::size_t most = 4096);

}  // namespace eplb
