#include "files/zip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

#include "core/error.hpp"
#include "files/inflation.hpp"

namespace eplb {
namespace {

// APPNOTE.TXT 6.3: 4.3.7 local header, 4.3.12 directory header, 4.3.14 to 4.3.16 end records.
constexpr std::uint32_t local_signature = 0x04034b50, directory_signature = 0x02014b50, end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50, locator64_signature = 0x07064b50;
constexpr std::size_t local_size = 30, directory_size = 46, end_size = 22, end64_size = 56, locator64_size = 20;
constexpr std::uint16_t flag_encrypted = 1, flag_utf8 = 0x800;
constexpr std::size_t alignment = 64;

[[noreturn]] void fail_zip(std::string_view finding, std::uint64_t byte, std::string what, std::string hint = "") {
    throw Error(ErrorCode::input, fmt::format("byte {}", byte), std::move(what), std::move(hint)).as_finding(finding);
}

std::uint64_t little(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t index = size; index-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + index]);
    return value;
}
std::uint16_t u16(std::span<const std::byte> bytes, std::size_t at) {
    return static_cast<std::uint16_t>(little(bytes, at, 2));
}
std::uint32_t u32(std::span<const std::byte> bytes, std::size_t at) {
    return static_cast<std::uint32_t>(little(bytes, at, 4));
}
std::uint64_t u64(std::span<const std::byte> bytes, std::size_t at) {
    return little(bytes, at, 8);
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t crc_of(std::span<const std::byte> bytes) {
    return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// The end record is the last thing of the file but for a comment of at most 65,535 bytes.
std::size_t find_end_record(std::span<const std::byte> file) {
    const std::size_t last = file.size() < end_size ? 0 : file.size() - end_size;
    const std::size_t first = last > 0xffff ? last - 0xffff : 0;
    for (std::size_t at = last + 1; file.size() >= end_size && at-- > first;) {
        if (u32(file, at) == end_signature && at + end_size + u16(file, at + 20) == file.size()) return at;
    }
    const std::size_t zeros = static_cast<std::size_t>(
        std::find_if(file.rbegin(), file.rend(), [](std::byte byte) { return byte != std::byte{0}; }) - file.rbegin());
    constexpr std::size_t telling = 512;  // fewer zeros may be the counts themselves
    if (zeros >= telling) {
        fail_zip("TRUNCATED", file.size() - zeros,
                 fmt::format("the last {} of {} bytes are zero and the zip end record is missing", zeros, file.size()),
                 "the file was reserved but not written whole, as on a full disk: dump or copy it again");
    }
    fail_zip("TRUNCATED", file.size(), fmt::format("the file has {} bytes and no zip end record", file.size()),
             "the save or copy was cut short: dump or copy it again");
}

struct Directory {
    std::uint64_t at = 0, size = 0, members = 0;
};

Directory find_directory(std::span<const std::byte> file) {
    const std::size_t end_at = find_end_record(file);
    Directory directory{u32(file, end_at + 16), u32(file, end_at + 12), u16(file, end_at + 10)};
    std::uint64_t limit = end_at;
    if (u16(file, end_at + 4) != 0 || u16(file, end_at + 6) != 0) {
        fail_zip("UNSUPPORTED_FILE", end_at, "the archive is one part of several");
    }
    if (end_at >= locator64_size && u32(file, end_at - locator64_size) == locator64_signature) {
        const std::uint64_t at = u64(file, end_at - locator64_size + 8);
        if (at > end_at - locator64_size || end_at - locator64_size - at < end64_size ||
            u32(file, static_cast<std::size_t>(at)) != end64_signature) {
            fail_zip("MALFORMED", end_at - locator64_size, fmt::format("the zip64 end record is not at byte {}", at));
        }
        const auto end64_at = static_cast<std::size_t>(at);
        directory = {u64(file, end64_at + 48), u64(file, end64_at + 40), u64(file, end64_at + 32)};
        limit = at;
    }
    if (directory.at > limit || limit - directory.at < directory.size) {
        fail_zip(
            "MALFORMED", end_at,
            fmt::format("a directory of {} bytes at byte {} does not fit into the file", directory.size, directory.at));
    }
    if (directory.members > directory.size / directory_size) {
        fail_zip("MALFORMED", end_at,
                 fmt::format("{} members in a directory of {} bytes are absurd", directory.members, directory.size));
    }
    return directory;
}

// Replaces the sizes and the place that did not fit into 32 bits by those of the zip64 extra field.
void apply_zip64(ZipMember& member, std::span<const std::byte> extra, std::uint64_t record_at) {
    constexpr std::uint32_t elsewhere = 0xffffffff;
    if (member.size != elsewhere && member.compressed_size != elsewhere && member.header_at != elsewhere) return;
    while (extra.size() >= 4) {
        const std::size_t size = u16(extra, 2);
        if (size > extra.size() - 4) break;
        if (u16(extra, 0) == 1) {
            std::span<const std::byte> field = extra.subspan(4, size);
            for (std::uint64_t* value : {&member.size, &member.compressed_size, &member.header_at}) {
                if (*value != elsewhere) continue;
                if (field.size() < 8) fail_zip("MALFORMED", record_at, "the zip64 field is too short");
                *value = u64(field, 0);
                field = field.subspan(8);
            }
            return;
        }
        extra = extra.subspan(4 + size);
    }
    fail_zip("MALFORMED", record_at, "the zip64 field is missing");
}

class Inflater {
  public:
    Inflater() {
        if (::inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw Error(ErrorCode::internal, "", "zlib cannot start");
    }
    ~Inflater() { ::inflateEnd(&stream_); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    // True when `source` inflates to exactly `target.size()` bytes.
    bool run(std::span<const std::byte> source, std::span<std::byte> target) {
        constexpr std::size_t step = 1u << 30;  // zlib counts in 32 bits
        int result = Z_OK;
        std::byte overflow{};
        stream_.next_in = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(source.data()));
        std::size_t in_left = source.size(), out_left = target.size();
        std::byte* out = target.data();
        while (result == Z_OK) {
            const std::size_t in = std::min(in_left, step), room = std::min(out_left, step);
            stream_.avail_in = static_cast<unsigned>(in);
            // One spare byte at the end, so that a stream that goes on is told from one that is done.
            stream_.next_out = reinterpret_cast<unsigned char*>(room ? out : &overflow);
            stream_.avail_out = static_cast<unsigned>(room ? room : 1);
            const unsigned out_before = stream_.avail_out;
            result = ::inflate(&stream_, Z_NO_FLUSH);
            const std::size_t made = out_before - stream_.avail_out;
            if (!room && made) return false;
            in_left -= in - stream_.avail_in;
            out_left -= made;
            out += made;
        }
        return result == Z_STREAM_END && out_left == 0 && in_left == 0;
    }

  private:
    z_stream stream_{};
};

}  // namespace

bool looks_like_zip(std::span<const std::byte> bytes) {
    return bytes.size() >= 4 && (u32(bytes, 0) == local_signature || u32(bytes, 0) == end_signature);
}

ZipLocalHeader read_local_header(std::span<const std::byte> file, std::size_t at) {
    if (at > file.size() || file.size() - at < local_size || u32(file, at) != local_signature) return {};
    const std::size_t name_size = u16(file, at + 26), extra_size = u16(file, at + 28);
    if (file.size() - at - local_size < name_size + extra_size) return {};
    return {text_of(file.subspan(at + local_size, name_size)), at + local_size + name_size + extra_size};
}

ZipArchive::ZipArchive(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {
    const std::span<const std::byte> bytes = file_->bytes();
    const Directory directory = find_directory(bytes);
    directory_at_ = directory.at;
    auto at = static_cast<std::size_t>(directory.at);
    const std::size_t end = at + static_cast<std::size_t>(directory.size);
    for (std::uint64_t index = 0; index < directory.members; ++index) {
        if (end - at < directory_size || u32(bytes, at) != directory_signature) {
            fail_zip("MALFORMED", at, fmt::format("member {} of the zip directory is damaged", index));
        }
        const std::size_t name_size = u16(bytes, at + 28), extra_size = u16(bytes, at + 30);
        const std::size_t record_size = directory_size + name_size + extra_size + u16(bytes, at + 32);
        if (end - at < record_size) fail_zip("MALFORMED", at, "a record of the zip directory is cut");
        ZipMember member;
        member.name = text_of(bytes.subspan(at + directory_size, name_size));
        member.flags = u16(bytes, at + 8);
        member.method = u16(bytes, at + 10);
        member.crc32 = u32(bytes, at + 16);
        member.compressed_size = u32(bytes, at + 20);
        member.size = u32(bytes, at + 24);
        member.header_at = u32(bytes, at + 42);
        apply_zip64(member, bytes.subspan(at + directory_size + name_size, extra_size), at);
        members_.push_back(member);
        at += record_size;
    }
    check_sizes(bytes.size());
    index_names();
}

// Before anything is allocated: members that share bytes of the file would let it grow without end, and so would data
// that deflate packed a thousandfold.
void ZipArchive::check_sizes(std::uint64_t file_bytes) const {
    std::uint64_t packed_left = directory_at_, inflated_left = max_inflated(file_bytes);
    for (const ZipMember& member : members_) {
        if (member.compressed_size > packed_left) {
            fail_zip("MALFORMED", member.header_at,
                     fmt::format("the members up to \"{}\" do not fit into the {} bytes before the directory: they "
                                 "overlap",
                                 member.name, directory_at_),
                     "the file is damaged or made to harm: dump it again");
        }
        packed_left -= member.compressed_size;
        if (member.method == 0) continue;
        if (member.size > inflated_left) {
            fail_zip("BAD_GEOMETRY", member.header_at,
                     fmt::format("the members up to \"{}\" inflate to more than {} bytes, absurd for a file of {}",
                                 member.name, max_inflated(file_bytes), file_bytes),
                     "if they are real, unzip it and zip it again with zip -0, as torch.save stores them");
        }
        inflated_left -= member.size;
    }
}

void ZipArchive::index_names() {
    by_name_.resize(members_.size());
    std::iota(by_name_.begin(), by_name_.end(), 0u);
    std::sort(by_name_.begin(), by_name_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::tie(members_[a].name, a) < std::tie(members_[b].name, b);
    });
    // Readers differ in which of two members of one name they take: none of them is right.
    const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return members_[a].name == members_[b].name;
    });
    if (twice == by_name_.end()) return;
    const ZipMember& second = members_[*(twice + 1)];
    fail_zip("MALFORMED", second.header_at, fmt::format("member \"{}\" stands twice in the archive", second.name));
}

const ZipMember* ZipArchive::find(std::string_view name) const {
    const auto found =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [&](std::uint32_t index, std::string_view wanted) { return members_[index].name < wanted; });
    return found == by_name_.end() || members_[*found].name != name ? nullptr : &members_[*found];
}

std::span<const std::byte> ZipArchive::raw_bytes(const ZipMember& member) const {
    const std::span<const std::byte> before = file_->bytes().first(static_cast<std::size_t>(directory_at_));
    const auto at = static_cast<std::size_t>(std::min<std::uint64_t>(member.header_at, before.size()));
    const ZipLocalHeader header = read_local_header(before, at);
    if (header.name != member.name) {
        fail_zip("MALFORMED", member.header_at, fmt::format("member \"{}\" does not begin here", member.name));
    }
    if (before.size() - header.data_at < member.compressed_size) {
        fail_zip("MALFORMED", header.data_at,
                 fmt::format("member \"{}\" of {} bytes reaches into the zip directory", member.name,
                             member.compressed_size));
    }
    return before.subspan(header.data_at, static_cast<std::size_t>(member.compressed_size));
}

ZipBytes ZipArchive::read(const ZipMember& member, std::uint64_t max_size) const {
    if (member.flags & flag_encrypted) {
        fail_zip("UNSUPPORTED_FILE", member.header_at, fmt::format("member \"{}\" is encrypted", member.name));
    }
    if (member.size > max_size) {
        fail_zip("BAD_GEOMETRY", member.header_at,
                 fmt::format("member \"{}\" has {} bytes, more than the {} it may have", member.name, member.size,
                             max_size));
    }
    const std::span<const std::byte> raw = raw_bytes(member);
    ZipBytes result{raw, file_};
    if (member.method == 0) {
        if (member.size != raw.size()) {
            fail_zip(
                "MALFORMED", member.header_at,
                fmt::format("stored member \"{}\" claims {} bytes and holds {}", member.name, member.size, raw.size()));
        }
    } else if (member.method == 8) {
        const auto inflated = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(member.size));
        if (!Inflater().run(raw, *inflated)) {
            fail_zip("MALFORMED", member.header_at, fmt::format("member \"{}\" does not inflate", member.name),
                     "the file is damaged: dump or copy it again");
        }
        result = {*inflated, inflated};
    } else {
        fail_zip("UNSUPPORTED_FILE", member.header_at,
                 fmt::format("member \"{}\" uses compression method {}; stored and deflated are read", member.name,
                             member.method));
    }
    const std::uint32_t crc = crc_of(result.bytes);
    if (crc != member.crc32) {
        fail_zip(
            "CRC_MISMATCH", member.header_at,
            fmt::format("member \"{}\" has CRC-32 {:08x}, the archive says {:08x}", member.name, crc, member.crc32),
            "the file is damaged: dump or copy it again");
    }
    return result;
}

namespace {

void put(std::vector<std::byte>& out, std::uint64_t value, std::size_t size) {
    for (std::size_t index = 0; index < size; ++index) out.push_back(static_cast<std::byte>(value >> 8 * index));
}

void put_zeros(std::vector<std::byte>& out, std::size_t size) {
    out.resize(out.size() + size);
}

void put(std::vector<std::byte>& out, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

void ZipWriter::add(std::string_view name, std::span<const std::byte> bytes) {
    constexpr std::size_t limit = std::numeric_limits<std::uint32_t>::max();
    constexpr std::size_t extra_header = 4;
    const std::size_t header_at = bytes_.size();
    const std::size_t before_padding = header_at + local_size + name.size() + extra_header;
    const std::size_t padding = (alignment - before_padding % alignment) % alignment;
    if (bytes.size() > limit - alignment || before_padding + padding > limit - bytes.size()) {
        throw Error(ErrorCode::output, "", "a torch file of 4 GiB or more is not written", "write npy or h5");
    }
    bytes_.reserve(before_padding + padding + bytes.size() + 1024);
    const std::uint32_t crc = crc_of(bytes);
    put(bytes_, local_signature, 4);
    put_zeros(bytes_, 2);          // version needed
    put(bytes_, flag_utf8, 2);     // flags
    put_zeros(bytes_, 2 + 2 + 2);  // stored, no time, no date
    put(bytes_, crc, 4);
    put(bytes_, bytes.size(), 4);
    put(bytes_, bytes.size(), 4);
    put(bytes_, name.size(), 2);
    put(bytes_, extra_header + padding, 2);
    put(bytes_, name);
    put(bytes_, "FB");  // the padding field of torch
    put(bytes_, padding, 2);
    bytes_.resize(bytes_.size() + padding, std::byte{'Z'});
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    entries_.push_back(
        {std::string(name), crc, static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(header_at)});
}

void ZipWriter::add(std::string_view name, std::string_view text) {
    add(name, std::as_bytes(std::span(text)));
}

std::vector<std::byte> ZipWriter::finish() {
    const std::size_t directory_at = bytes_.size();
    for (const Entry& entry : entries_) {
        put(bytes_, directory_signature, 4);
        put_zeros(bytes_, 2 + 2);  // versions made by and needed
        put(bytes_, flag_utf8, 2);
        put_zeros(bytes_, 2 + 2 + 2);  // stored, no time, no date
        put(bytes_, entry.crc32, 4);
        put(bytes_, entry.size, 4);
        put(bytes_, entry.size, 4);
        put(bytes_, entry.name.size(), 2);
        put_zeros(bytes_, 2 + 2 + 2 + 2 + 4);  // no extra field, comment, disk, attributes
        put(bytes_, entry.header_at, 4);
        put(bytes_, entry.name);
    }
    const std::size_t directory_size_ = bytes_.size() - directory_at;
    put(bytes_, end_signature, 4);
    put_zeros(bytes_, 2 + 2);  // one part
    put(bytes_, entries_.size(), 2);
    put(bytes_, entries_.size(), 2);
    put(bytes_, directory_size_, 4);
    put(bytes_, directory_at, 4);
    put_zeros(bytes_, 2);  // no comment
    return std::move(bytes_);
}

}  // namespace eplb
