#include "check/expected_layers.hpp"

#include <algorithm>

namespace eplb {

ExpectedLayers expected_layers(const CountOptions& options, int layers, std::span<const int> zero_layers) {
    ExpectedLayers result;
    int leading_run = 0;  // zero rows from the first on, stated or not
    while (leading_run < static_cast<int>(zero_layers.size()) &&
           zero_layers[static_cast<std::size_t>(leading_run)] == leading_run) {
        ++leading_run;
    }
    const bool dense_known = options.dense_layers.has_value();
    for (int layer = 0; layer < layers; ++layer) {
        const bool zero = std::binary_search(zero_layers.begin(), zero_layers.end(), layer);
        const bool dense = dense_known && options.dense_layers->contains(layer);
        const bool stated = dense || !options.selection.keeps_layer(layer) || layer >= options.draft_layers_from;
        if (!zero) {
            ++result.counted;
            ++result.expected;
            if (dense) result.contradicted.push_back(layer);
        } else if (stated) {
            result.stated.push_back(layer);
        } else {
            const bool early = !dense_known && layer < leading_run;
            (early && leading_run <= most_leading_zero_layers ? result.leading : result.unexplained).push_back(layer);
            if (!early || layer >= most_leading_zero_layers) ++result.expected;
        }
    }
    return result;
}

}  // namespace eplb
