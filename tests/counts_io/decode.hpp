// Shortcuts from bytes to counts for the reader tests.
#pragma once

#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/counts.hpp"
#include "counts_io/count_file.hpp"
#include "files/error_of.hpp"

namespace eplb {

inline CountFile decode(std::string_view bytes, const CountOptions& options = {}) {
    return decode_count_file(MappedFile::copy_of("x", std::as_bytes(std::span(bytes))), options);
}
inline Error decode_error(std::string_view bytes, const CountOptions& options = {}) {
    return error_of([&] { decode(bytes, options); });
}

// 1, 2, 3, ...
template <typename T>
std::vector<T> ascending(std::size_t size) {
    std::vector<T> values(size);
    std::iota(values.begin(), values.end(), T{1});
    return values;
}
inline const std::vector<std::int64_t> one_to_24 = ascending<std::int64_t>(24);

// Of a 3-D tensor of whole numbers, row-major.
inline std::vector<std::int64_t> values_of(const Tensor& tensor) {
    const Counts counts({tensor});
    std::vector<std::int64_t> values, row(static_cast<std::size_t>(counts.experts()));
    for (int slot = 0; slot < counts.record_slots(); ++slot) {
        for (int layer = 0; layer < counts.layers(); ++layer) {
            counts.read_row(slot, layer, row);
            values.insert(values.end(), row.begin(), row.end());
        }
    }
    return values;
}

}  // namespace eplb
