#include "core/error.hpp"
#include "counts_io/count_formats.hpp"
#include "files/npy.hpp"

namespace eplb {

DecodedCounts read_npy_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions&) {
    return {read_npy(file), Reduction::unknown, std::nullopt, {}};
}

}  // namespace eplb
