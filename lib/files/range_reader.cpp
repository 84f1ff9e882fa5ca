#include "files/range_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr std::size_t piece_bytes = std::size_t{8} << 20;

}  // namespace

RangeReader::RangeReader() : buffer_(std::make_unique_for_overwrite<std::byte[]>(piece_bytes)) {}

RangeReader::~RangeReader() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void RangeReader::open(const std::string& path) {
    if (descriptor_ >= 0 && path == path_) return;
    if (descriptor_ >= 0) ::close(descriptor_);
    path_ = path;
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw Error(ErrorCode::input, path, std::strerror(errno));
}

void RangeReader::read(const std::string& path, std::uint64_t begin, std::uint64_t size,
                       const std::function<void(std::span<const std::byte>)>& take) {
    open(path);
    while (size > 0) {
        const ssize_t got =
            ::pread(descriptor_, buffer_.get(), std::min<std::uint64_t>(size, piece_bytes), static_cast<off_t>(begin));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Error(ErrorCode::input, path, std::strerror(errno));
        if (got == 0) throw Error(ErrorCode::input, path, "became shorter while it was read");
        take({buffer_.get(), static_cast<std::size_t>(got)});
        begin += static_cast<std::uint64_t>(got);
        size -= static_cast<std::uint64_t>(got);
    }
}

}  // namespace eplb
