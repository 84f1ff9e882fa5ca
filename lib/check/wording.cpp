#include "check/wording.hpp"

#include <fmt/format.h>

namespace eplb {

std::string row_place(int record_slot, int layer) {
    return fmt::format("record slot {}, layer {}", record_slot, layer);
}

std::string cell_place(int record_slot, int layer, int expert) {
    return fmt::format("record slot {}, layer {}, expert {}", record_slot, layer, expert);
}

std::string expert_place(int layer, int expert) {
    return fmt::format("layer {}, expert {}", layer, expert);
}

std::string number_ranges(std::span<const int> numbers, int most) {
    std::string text;
    int ranges = 0;
    for (std::size_t first = 0; first < numbers.size();) {
        if (ranges++ == most) return text + fmt::format(" and {} more", numbers.size() - first);
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += text.empty() ? "" : ", ";
        text += first == last ? fmt::format("{}", numbers[first]) : fmt::format("{}-{}", numbers[first], numbers[last]);
        first = last + 1;
    }
    return text;
}

}  // namespace eplb
