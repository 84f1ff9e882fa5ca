// Zip archives: what a reader of torch files needs (stored and deflated members, zip64), and a writer of stored
// members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/mapped_file.hpp"

namespace eplb {

struct ZipMember {
    std::string_view name;                // inside the mapped directory
    std::uint16_t method = 0, flags = 0;  // 0 stored, 8 deflated
    std::uint32_t crc32 = 0;
    std::uint64_t compressed_size = 0, size = 0;
    std::uint64_t header_at = 0;  // byte of the local header
};

// The bytes of a member, and what keeps them alive: the file itself when the member is stored.
struct ZipBytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
};

class ZipArchive {
  public:
    // Reads the central directory. Throws Error{input} with the byte; finding codes TRUNCATED (no end record, or it
    // points past the end), MALFORMED (members of one name, or that overlap) and BAD_GEOMETRY (members that inflate to
    // more than max_inflated() of the file).
    explicit ZipArchive(std::shared_ptr<const MappedFile> file);

    const std::vector<ZipMember>& members() const { return members_; }
    const ZipMember* find(std::string_view name) const;  // nullptr when absent

    // Checks the local header and the CRC-32. Throws Error{input}: CRC_MISMATCH, MALFORMED, UNSUPPORTED_FILE (an
    // encrypted member, another compression), BAD_GEOMETRY when it is longer than `max_size` once inflated.
    ZipBytes read(const ZipMember& member, std::uint64_t max_size) const;

  private:
    std::span<const std::byte> raw_bytes(const ZipMember& member) const;
    void check_sizes(std::uint64_t file_bytes) const;
    void index_names();

    std::shared_ptr<const MappedFile> file_;
    std::vector<ZipMember> members_;
    std::vector<std::uint32_t> by_name_;  // indices of members_, ascending by name
    std::uint64_t directory_at_ = 0;
};

bool looks_like_zip(std::span<const std::byte> bytes);

// The name and the first byte of the data of the local header at `at`, for what can still be told about a file whose
// central directory is lost. The data's end is unknown: writers that stream leave the sizes to the directory.
struct ZipLocalHeader {
    std::string_view name;
    std::size_t data_at = 0;
};
// nullptr-like empty name where no whole local header starts at `at`.
ZipLocalHeader read_local_header(std::span<const std::byte> file, std::size_t at);

// Builds an archive of stored members in memory, each aligned to 64 bytes as torch does, without dates: the same
// members give the same bytes.
class ZipWriter {
  public:
    void add(std::string_view name, std::span<const std::byte> bytes);
    void add(std::string_view name, std::string_view text);
    std::vector<std::byte> finish();  // appends the directory

  private:
    struct Entry {
        std::string name;
        std::uint32_t crc32, size;
        std::uint32_t header_at;
    };
    std::vector<std::byte> bytes_;
    std::vector<Entry> entries_;
};

}  // namespace eplb
