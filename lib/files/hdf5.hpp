// HDF5 files through the C library: one numeric data set in, one out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

struct Hdf5DataSet {
    std::string path;  // "/logical_count"
    Tensor tensor;     // contiguous, in this machine's byte order
};

bool looks_like_hdf5(std::span<const std::byte> bytes);

// Reads the data set `wanted`, else `preferred` where it exists, else the only integer data set with three axes. The
// library runs in a child process with bounded memory and time: it is known to crash on damaged files. Throws
// Error{input}: NOT_A_COUNT_FILE (no such data set, or a choice), UNSUPPORTED_FILE (a filter that is not there, values
// in other files, a data set for each layer), UNSUPPORTED_TYPE, BAD_GEOMETRY (larger than max_inflated() of the file),
// TRUNCATED, MALFORMED.
Hdf5DataSet read_hdf5(const std::shared_ptr<const MappedFile>& file, const std::optional<std::string>& wanted,
                      const std::string& preferred);

// A file with one little-endian data set, chunked along the first axis, with Fletcher32 checksums and no dates.
// `values`: contiguous, int32 or int64, of one axis or more.
std::vector<std::byte> encode_hdf5(const std::string& path, const Tensor& values);

}  // namespace eplb
