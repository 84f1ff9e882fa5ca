// Count tensors made by hand for the tests of the checks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "check/counts.hpp"
#include "core/counts.hpp"

namespace eplb {

// [slots, layers, experts] of int64, changed cell by cell.
struct Sample {
    int slots, layers, experts;
    std::vector<std::int64_t> values;

    Sample(int slots_, int layers_, int experts_)
        : slots(slots_),
          layers(layers_),
          experts(experts_),
          values(static_cast<std::size_t>(slots_) * static_cast<std::size_t>(layers_) *
                 static_cast<std::size_t>(experts_)) {}

    std::int64_t& at(int slot, int layer, int expert) {
        return values[(static_cast<std::size_t>(slot) * static_cast<std::size_t>(layers) +
                       static_cast<std::size_t>(layer)) *
                          static_cast<std::size_t>(experts) +
                      static_cast<std::size_t>(expert)];
    }
    Tensor tensor() const { return make_count_tensor(values, slots, layers, experts); }
};

// 32 record slots, 3 layers, 4 experts, top-2. Slot s has 20 + 7 s mod 32 tokens, so every row sums to twice that in
// each layer, no cell is above the tokens, and every expert is hit.
inline Sample healthy() {
    Sample sample(32, 3, 4);
    for (int s = 0; s < 32; ++s) {
        const int tokens = 20 + 7 * s % 32;
        for (int l = 0; l < 3; ++l) {
            sample.at(s, l, 0) = tokens - 3 - s % 5;
            sample.at(s, l, 1) = tokens - 7 - l - s % 3;
            sample.at(s, l, 2) = 1;
            sample.at(s, l, 3) = 9 + l + s % 5 + s % 3;
        }
    }
    return sample;
}

inline CountReport check_sample(const Sample& sample, const CountOptions& options = {},
                                Reduction by_format = Reduction::reduced) {
    return check_counts("counts.pt", sample.tensor(), by_format, options);
}

// The finding with this code, or one with an empty code.
inline Finding find(const std::vector<Finding>& findings, const std::string& code) {
    const auto found =
        std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.code == code; });
    return found == findings.end() ? Finding{} : *found;
}

inline std::vector<std::string> codes_at_least(const std::vector<Finding>& findings, Severity severity) {
    std::vector<std::string> codes;
    for (const Finding& finding : findings) {
        if (finding.severity >= severity) codes.push_back(finding.code);
    }
    return codes;
}

}  // namespace eplb
