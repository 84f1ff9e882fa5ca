#include "cli/app.hpp"
#include "core/printable.hpp"
#include "options.hpp"
#include "run.hpp"

int main(int argc, char** argv) {
    return eplb::cli::run_app("eplb-fit", [&] {
        const auto options = eplb::parse_options(argc, argv);
        int code = 0;
        eplb::cli::on_input(eplb::first_few(options.counts.files), [&] { code = eplb::run(options); });
        return code;
    });
}
