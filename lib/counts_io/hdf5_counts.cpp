#include "counts_io/count_formats.hpp"
#include "files/hdf5.hpp"

namespace eplb {

DecodedCounts read_hdf5_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    Hdf5DataSet data_set = read_hdf5(file, options.dataset, "/logical_count");
    DecodedCounts result;
    result.tensor = std::move(data_set.tensor);
    if (!options.dataset && data_set.path != "/logical_count") {
        result.findings.push_back({Severity::info, "TENSOR_CHOSEN", data_set.path,
                                   "the only integer data set with three axes is taken as the counts", ""});
    }
    return result;
}

std::vector<std::byte> encode_hdf5_counts(const Tensor& counts, int) {
    return encode_hdf5("/logical_count", counts);
}

}  // namespace eplb
