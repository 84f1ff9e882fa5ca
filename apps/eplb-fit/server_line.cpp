#include "server_line.hpp"

#include <fmt/format.h>

namespace eplb {

std::string server_line(const std::string& layout_path, const Geometry& geometry) {
    return fmt::format(
        "python3 -m sglang.launch_server ... --init-expert-location {} --ep-num-redundant-experts {} --ep-size {} "
        "--ep-dispatch-algorithm static",
        layout_path, geometry.redundant_total(), geometry.ranks);
}

std::vector<std::string> server_traps(const Geometry& geometry, const FitOptions& options) {
    std::vector<std::string> traps{
        fmt::format("SGLang compares neither flag with the file: --ep-num-redundant-experts must be {} (in total) and "
                    "--ep-size {}, or weights are wrong in silence.",
                    geometry.redundant_total(), geometry.ranks),
        fmt::format("The file has {} rows; that must be all hidden layers of the model, dense ones included.",
                    geometry.layers),
        "With MoE tensor parallelism SGLang before 2026-07-16 takes another rank's row of its static table; pipeline "
        "stages "
        "alone do not.",
    };
    if (makes_table(options)) {
        traps.push_back(
            "The server must load X.dispatch.npy: with its own table the layout is worth what eplb-score --dispatch "
            "auto --engine-version V --nodes N says.");
    } else if (dispatch_name(options) != "even") {
        traps.push_back(fmt::format(
            "Fitted for {}{}: another rule or number of nodes makes another layout best.", dispatch_name(options),
            options.dispatch.nodes
                ? fmt::format(" on {} node{}", *options.dispatch.nodes, *options.dispatch.nodes == 1 ? "" : "s")
                : ""));
    } else if (geometry.redundant_total() > 0) {
        traps.push_back(
            "SGLang's static dispatch does not split evenly, and how depends on its version: score with eplb-score "
            "--dispatch auto --engine-version V --nodes N, fit for it with the same flags of eplb-fit.");
    }
    if (geometry.redundant_total() > 0) {
        traps.push_back(
            "Replicas need an all-to-all backend (--moe-a2a-backend): without one, SGLang before 2026-07-30 adds up "
            "wrong "
            "outputs, later ones refuse static at the start.");
    }
    traps.push_back(
        "Without --enable-eplb some model paths load the map into the weights but not into the routing: compare greedy "
        "answers (end of text honoured) before and after.");
    return traps;
}

}  // namespace eplb
