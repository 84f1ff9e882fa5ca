#include "cli/app.hpp"
#include "options.hpp"
#include "run.hpp"

int main(int argc, char** argv) {
    return eplb::cli::run_app("eplb-load", [&] { return eplb::run(eplb::parse_options(argc, argv)); });
}
