// What every program can be told, as values; lib/cli/options.hpp has the flags.
#pragma once

#include <thread>

namespace eplb::cli {

struct CommonOptions {
    bool json = false;  // one JSON object on stdout and nothing else
    int threads = 0;    // 0: as many as the machine has
    int verbosity = 0;  // number of -v

    int thread_count() const {
        if (threads > 0) return threads;
        const unsigned cores = std::thread::hardware_concurrency();  // 0 when it is not known
        return cores > 0 ? static_cast<int>(cores) : 1;
    }
};

// Flags given before a subcommand and after it.
inline CommonOptions merged(const CommonOptions& before, const CommonOptions& after) {
    return {before.json || after.json, after.threads > 0 ? after.threads : before.threads,
            before.verbosity + after.verbosity};
}

}  // namespace eplb::cli
