// NumPy's .npy files (numpy.lib.format, versions 1 to 3): one array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

bool looks_like_npy(std::span<const std::byte> bytes);

// The array as a view of the file: any number type, either byte order, C or Fortran order. Throws Error{input} with the
// byte; finding codes TRUNCATED, BAD_GEOMETRY, UNSUPPORTED_TYPE, MALFORMED.
Tensor read_npy(const std::shared_ptr<const MappedFile>& file);

// Version 1.0, little-endian, C order, padded to 64 bytes, as numpy.save writes. `values` fill `shape` row-major.
std::vector<std::byte> encode_npy(std::span<const std::int32_t> values, std::span<const std::int64_t> shape);
std::vector<std::byte> encode_npy(std::span<const std::int64_t> values, std::span<const std::int64_t> shape);

}  // namespace eplb
