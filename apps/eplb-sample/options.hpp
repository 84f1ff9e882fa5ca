// The flags of eplb-sample, as values.
#pragma once

#include <string>

#include "cli/common_options.hpp"
#include "sample/spec.hpp"

namespace eplb {

struct SampleOptions {
    cli::CommonOptions common;
    SampleSpec spec;     // the preset with the flags laid over it
    std::string out;     // count file to write
    std::string format;  // "pt", "npy" or "h5", from the ending of `out`
    bool force = false;
};

// Opens no file.
SampleOptions parse_options(int argc, char** argv);

}  // namespace eplb
