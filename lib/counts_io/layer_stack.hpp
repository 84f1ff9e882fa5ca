// Counts that a file keeps layer by layer, put into one tensor whose rows are the layers' numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace eplb {

struct LayerCountsOf {
    std::int64_t layer = 0;  // its number in the model, or its position
    Tensor counts;           // [experts] or [record slots, experts]
    std::string where;       // for errors
};

// The layer that a key names: "7", "layer_7", "layers.7", "layer-7"; nullopt for any other key, and for numbers that
// are no layer of a model.
std::optional<std::int64_t> layer_of_key(std::string_view key);

// [record slots, layers, experts]; a layer without an entry is a row of zeros. `layers`: the number of rows, else the
// largest number plus one. Integers become int64; one layer of floats makes all float64. Throws Error{input}: MALFORMED
// for a layer twice, BAD_GEOMETRY for layers of different shapes, a layer beyond `layers`, and a few layers with
// numbers so large that the zeros between them would be most of the tensor.
Tensor stack_layers(const std::vector<LayerCountsOf>& parts, std::optional<int> layers);

// Throws Error{input} BAD_GEOMETRY where a tensor of `cells` elements would be made from `stored` of a file and most of
// it were zeros that a few hostile numbers ask for.
void require_plausible_size(std::int64_t cells, std::int64_t stored, std::string_view what);

// a * b * c. Throws Error{input} BAD_GEOMETRY where it is above 2^63 - 1.
std::int64_t cells_of(std::int64_t a, std::int64_t b, std::int64_t c);

}  // namespace eplb
