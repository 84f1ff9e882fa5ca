#include "core/error.hpp"
#include "core/tensor_view.hpp"
#include "counts_io/count_formats.hpp"
#include "files/npy.hpp"

namespace eplb {

DecodedCounts read_npy_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions&) {
    return {read_npy(file), Reduction::unknown, std::nullopt, {}};
}

std::vector<std::byte> encode_npy_counts(const Tensor& counts, int) {
    const std::span<const std::byte> bytes = bytes_of(counts);
    const auto values = [&]<typename T>(T) {
        return std::span(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
    };
    return counts.dtype == DType::int64 ? encode_npy(values(std::int64_t{}), counts.shape)
                                        : encode_npy(values(std::int32_t{}), counts.shape);
}

}  // namespace eplb
