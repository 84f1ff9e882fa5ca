// How much a compressed file may hold. Asked before memory is taken.
#pragma once

#include <cstdint>

namespace eplb {

// Bytes that a file of `file_bytes` may inflate to, all parts together: a fixed amount for everybody, and beyond it a
// hundred times the file. Counts compress about tenfold, a window that is empty but for a few passes some fiftyfold;
// deflate alone would allow a thousandfold, and a small file could then fill a machine.
constexpr std::uint64_t max_inflated(std::uint64_t file_bytes) {
    constexpr std::uint64_t free_bytes = std::uint64_t{1} << 26, ratio = 100, no_file = std::uint64_t{1} << 56;
    return file_bytes < no_file ? free_bytes + ratio * file_bytes : ~std::uint64_t{0};
}

}  // namespace eplb
