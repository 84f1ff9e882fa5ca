// Safetensors files: eight bytes of header length, a JSON header, then the tensors' bytes back to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/mapped_file.hpp"

namespace eplb {

// One tensor of a file. The format's own type names are kept ("F32", "BF16", "F8_E4M3", ...): nothing here computes.
struct SafetensorsEntry {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes inside the data region

    std::uint64_t bytes() const { return end - begin; }
    bool operator==(const SafetensorsEntry&) const = default;
};

// Bits of one element; empty for a type name that the format does not know.
std::optional<int> safetensors_bits(std::string_view dtype);

// Bytes of a tensor. Throws Error{input} for an unknown type, a negative extent, a size beyond 2^63 and a number of
// bits that is no whole number of bytes.
std::uint64_t safetensors_bytes(std::string_view dtype, std::span<const std::int64_t> shape);

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

// The header of a file, checked: sizes agree with types and shapes, the tensors fill the data region without gap or
// overlap, and the file ends where they end.
class SafetensorsFile {
  public:
    // Throws Error{input} that names the file and the tensor, with the finding codes TRUNCATED and MALFORMED.
    static SafetensorsFile open(const std::string& path);
    static SafetensorsFile parse(std::shared_ptr<const MappedFile> file);

    const std::string& path() const { return file_->path(); }
    const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // in the order of their bytes
    const SafetensorsMetadata& metadata() const { return metadata_; }          // __metadata__, in file order
    std::uint64_t data_offset() const { return data_offset_; }                 // of the data region in the file
    const SafetensorsEntry* find(std::string_view name) const;                 // null when there is none
    std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;     // mapped; the file must stay as it is
    const std::shared_ptr<const MappedFile>& file() const { return file_; }

  private:
    std::shared_ptr<const MappedFile> file_;
    std::vector<SafetensorsEntry> entries_;
    std::vector<std::size_t> by_name_;  // indices of entries_, in the order of their names
    SafetensorsMetadata metadata_;
    std::uint64_t data_offset_ = 0;
};

// Gives the entries begin and end, back to back in their order.
void place_back_to_back(std::vector<SafetensorsEntry>& entries);

// Length and header of a file with these entries, padded so that the data region starts at a multiple of eight.
std::string encode_safetensors_header(std::span<const SafetensorsEntry> entries, const SafetensorsMetadata& metadata);

}  // namespace eplb
