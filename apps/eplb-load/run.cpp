#include "run.hpp"

namespace eplb {
namespace {

struct Run {
    int operator()(const CheckOptions& options) const { return run_check(options); }
    int operator()(const TableOptions& options) const { return run_table(options); }
    int operator()(const CheckpointOptions& options) const { return run_checkpoint(options); }
};

}  // namespace

int run(const LoadOptions& options) {
    return std::visit(Run{}, options);
}

}  // namespace eplb
