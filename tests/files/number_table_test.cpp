#include <catch2/catch.hpp>

#include "error_of.hpp"
#include "files/number_table.hpp"

using namespace eplb;

namespace {

std::vector<std::int64_t> integers(std::string_view text, const TableSyntax& syntax = {}) {
    return parse_number_table(text, syntax).cells.integers();
}
Error refused(std::string_view text, const TableSyntax& syntax = {}) {
    return error_of([&] { parse_number_table(text, syntax); });
}

}  // namespace

TEST_CASE("a table is its rows of numbers, whatever its line ends") {
    const NumberTable table = parse_number_table("1,2,3\n4,5,-6\n", {});
    CHECK(table.rows == 2);
    CHECK(table.columns == 3);
    CHECK(table.cells.integers() == std::vector<std::int64_t>{1, 2, 3, 4, 5, -6});
    CHECK_FALSE(table.open_end);
    CHECK(integers("\xef\xbb\xbf 1 , 2\r\n3,4\r\n\r\n\n") == std::vector<std::int64_t>{1, 2, 3, 4});
    CHECK(integers("9223372036854775807\n") == std::vector<std::int64_t>{9223372036854775807});
}

TEST_CASE("a last line without an end is read, and said") {
    CHECK(parse_number_table("1,2\n3,4", {}).open_end);
    CHECK(parse_number_table("1,2\n3,4", {}).cells.integers() == std::vector<std::int64_t>{1, 2, 3, 4});
}

TEST_CASE("a closing separator is no empty cell where the syntax says so") {
    CHECK(integers("1\t2\t\n3\t4\t\n", {'\t', false, true}) == std::vector<std::int64_t>{1, 2, 3, 4});
    CHECK(integers("1\t2\n", {'\t', false, true}) == std::vector<std::int64_t>{1, 2});
    CHECK(refused("1,2,\n").where() == "line 1, column 3");
}

TEST_CASE("the header is kept and its line is counted in places") {
    const NumberTable table = parse_number_table("a,b\n1,2\n3,4\n", {',', true, false});
    CHECK(table.header == std::vector<std::string_view>{"a", "b"});
    CHECK(table.rows == 2);
    CHECK(table.place(0) == "line 2");
    CHECK(refused("a,b\n1,x\n", {',', true, false}).where() == "line 2, column 2");
}

TEST_CASE("one number with a fraction makes the table one of floats") {
    NumberTable table = parse_number_table("1,2.5\n3e2,4\n", {});
    CHECK_FALSE(table.cells.whole());
    const Tensor tensor = std::move(table.cells).tensor({2, 2});
    CHECK(tensor.dtype == DType::float64);
    CHECK(floating_at(tensor, 0) == 1);
    CHECK(floating_at(tensor, 2) == 300);
    CHECK(refused("9007199254740993,2.5\n").finding_code() == "MALFORMED");
    CHECK(refused("2.5,9007199254740993\n").finding_code() == "MALFORMED");
}

TEST_CASE("what is no table of numbers is refused by line and column") {
    CHECK(refused("1,2\n3,x\n").where() == "line 2, column 2");
    CHECK(refused("1,,2\n").where() == "line 1, column 2");
    CHECK_THAT(refused("1,9223372036854775808\n").message(), Catch::Contains("64 bits"));
    CHECK(refused("1,2\n\n3,4\n").where() == "line 2, column 1");
    CHECK(refused("1,2\n3\n").where() == "line 2");
    CHECK(refused("1,2\n3\n").finding_code() == "MALFORMED");
    CHECK(refused("1,2\n3,4,5\n").finding_code() == "MALFORMED");
    CHECK(refused("1,2\n3").finding_code() == "TRUNCATED");  // as above, but cut
    CHECK(refused("").finding_code() == "TRUNCATED");
    CHECK(refused("a,b\n", {',', true, false}).finding_code() == "TRUNCATED");
    CHECK(refused("0x10\n").finding_code() == "MALFORMED");
    CHECK(refused("1 2\n").finding_code() == "MALFORMED");
}
