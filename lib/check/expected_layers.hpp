// Which layers of a model should have counts, and which zero rows nothing explains.
#pragma once

#include <span>
#include <vector>

#include "core/count_options.hpp"

namespace eplb {

// A few leading zero rows are ordinary: models begin with up to this many dense layers (DeepSeek-V3 3, Step-3 4), and
// recorders leave hash-routed first layers at zero.
inline constexpr int most_leading_zero_layers = 4;

struct ExpectedLayers {
    std::vector<int> stated;        // zero, and stated to be: dense layers, layers left out, draft layers
    std::vector<int> leading;       // zero, not stated, but ordinary: all leading ones, where they are few
    std::vector<int> unexplained;   // zero, and nothing says why
    std::vector<int> contradicted;  // with counts, and stated to have no experts
    int counted = 0;                // with counts
    // Layers that should have counts. Of a long run of leading zero rows the first most_leading_zero_layers are not
    // among them, whatever they are.
    int expected = 0;

    // Are there counts of most of the layers that should have them? Below half a layout is made without evidence.
    bool most_counted() const { return 2 * counted >= expected; }
};

// `zero_layers`: of the `layers` layers those without counts, ascending.
ExpectedLayers expected_layers(const CountOptions& options, int layers, std::span<const int> zero_layers);

}  // namespace eplb
