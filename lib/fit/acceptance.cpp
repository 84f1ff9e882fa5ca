#include "fit/acceptance.hpp"

#include <array>
#include <cstddef>

#include "fit/reproducible.hpp"

namespace eplb {
namespace {

constexpr std::size_t table_size = 4096;  // -ln u up to 9: changes of more than 9 T are never accepted

const std::array<float, table_size>& table() {
    static const auto values = [] {
        std::array<float, table_size> result{};
        for (std::size_t i = 0; i < table_size; ++i) {
            result[i] = static_cast<float>(-natural_log((static_cast<double>(i) + 0.5) / table_size));
        }
        return result;
    }();
    return values;
}

}  // namespace

float exponential_variate(Random& random) {
    return table()[random.below(table_size)];
}

}  // namespace eplb
