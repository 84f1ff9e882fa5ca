#include "cli/progress_bar.hpp"

#include <catch2/catch.hpp>

using namespace eplb;

TEST_CASE("the progress line shows what is done and the best figure so far") {
    CHECK(cli::progress_line("fitting", 29, 58, 1.11738) ==
          "fitting [###############               ] 29/58, best 1.1174 so far");
    CHECK(cli::progress_line("fitting", 58, 58, 1.5) ==
          "fitting [##############################] 58/58, best 1.5000 so far");
}

TEST_CASE("without a figure or without work the progress line leaves it out") {
    CHECK(cli::progress_line("shards", 0, 3, 0) == "shards [                              ] 0/3");
    CHECK(cli::progress_line("fitting", 0, 0, 0) == "fitting [                              ] 0/0");
}
