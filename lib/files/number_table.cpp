#include "files/number_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf", spaces = " \r";

std::string_view trimmed(std::string_view cell) {
    const std::size_t first = cell.find_first_not_of(spaces);
    if (first == std::string_view::npos) return {};
    return cell.substr(first, cell.find_last_not_of(spaces) - first + 1);
}

[[noreturn]] void fail(std::string_view finding, std::int64_t line, std::size_t column, std::string what,
                       std::string hint) {
    throw Error(ErrorCode::input,
                column == 0 ? fmt::format("line {}", line) : fmt::format("line {}, column {}", line, column),
                std::move(what), std::move(hint))
        .as_finding(finding);
}

template <typename T>
std::from_chars_result parse(std::string_view cell, T& value) {
    return std::from_chars(cell.data(), cell.data() + cell.size(), value);
}

void add_number(NumberList& cells, std::string_view cell, std::int64_t line, std::size_t column) {
    if (cell.empty()) fail("MALFORMED", line, column, "is empty", "write 0 where nothing was counted");
    const char* const end = cell.data() + cell.size();
    std::int64_t integer = 0;
    const auto whole = parse(cell, integer);
    if (whole.ptr == end && whole.ec == std::errc()) return cells.add(integer);
    if (whole.ptr == end) {
        fail("MALFORMED", line, column, fmt::format("{} does not fit into 64 bits", cell), "this is no count");
    }
    double real = 0;
    const auto fraction = parse(cell, real);
    if (fraction.ptr != end || fraction.ec != std::errc()) {
        fail("MALFORMED", line, column, fmt::format("\"{}\" is no number", cell.substr(0, 40)),
             "a table of counts holds numbers only");
    }
    cells.add(real);
}

}  // namespace

std::string NumberTable::place(std::int64_t row) const {
    return fmt::format("line {}", row + (header.empty() ? 1 : 2));
}

std::string_view first_line(std::string_view text, std::size_t most) {
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    text = text.substr(0, std::min(text.find('\n'), most));
    return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

NumberTable parse_number_table(std::string_view text, const TableSyntax& syntax) {
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    while (text.ends_with("\n\n") || text.ends_with("\n\r\n")) text.remove_suffix(text.ends_with("\r\n") ? 2 : 1);
    NumberTable table;
    table.open_end = !text.empty() && !text.ends_with('\n');
    std::int64_t line = 0;
    for (std::size_t at = 0; at < text.size(); ++line) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view rest = text.substr(at, end - at);
        at = end + 1;
        if (rest.ends_with('\r')) rest.remove_suffix(1);
        if (syntax.closing_separator && rest.ends_with(syntax.separator)) rest.remove_suffix(1);
        std::size_t column = 0;
        for (bool more = true; more;) {
            const std::size_t stop = rest.find(syntax.separator);
            more = stop != std::string_view::npos;
            const std::string_view cell = trimmed(rest.substr(0, stop));
            if (more) rest.remove_prefix(stop + 1);
            ++column;
            if (syntax.has_header && line == 0) {
                table.header.push_back(cell);
            } else {
                add_number(table.cells, cell, line + 1, column);
            }
        }
        const auto columns = static_cast<std::int64_t>(column);
        if (line == 0) {
            table.columns = columns;
        } else if (columns != table.columns) {
            const bool cut = table.open_end && end == text.size() && columns < table.columns;
            fail(cut ? "TRUNCATED" : "MALFORMED", line + 1, 0,
                 fmt::format("has {} numbers, the lines before it have {}", columns, table.columns),
                 cut ? "the file was cut: dump or copy it again" : "every line needs the same columns");
        }
    }
    table.rows = line - (syntax.has_header ? 1 : 0);
    if (table.rows <= 0) {
        throw Error(ErrorCode::input, "", "the table has no row", "nothing was recorded, or the file was cut")
            .as_finding("TRUNCATED");
    }
    return table;
}

}  // namespace eplb
