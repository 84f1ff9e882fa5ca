#include "files/output_system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace eplb {

void fail_output(const std::string& path, const char* what, int reason, std::string hint) {
    throw Error(ErrorCode::output, path, fmt::format("{}: {}", what, std::strerror(reason)), std::move(hint));
}

void refuse_existing(const std::string& path) {
    throw Error(ErrorCode::output, path, "exists", "--force replaces it");
}

void write_all(const std::string& path, int descriptor, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail_output(path, "cannot be written", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void sync_folder(const std::string& path, const std::string& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail_output(path, "its folder cannot be synced", errno);
    const int result = ::fsync(descriptor), reason = errno;
    ::close(descriptor);
    if (result != 0 && reason != EINVAL && reason != EROFS && reason != ENOTSUP) {
        fail_output(path, "its folder cannot be synced", reason);
    }
}

FolderLock::FolderLock(const std::string& path, const std::string& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) return;  // the rename will say what is wrong with the folder
    constexpr auto pause = std::chrono::milliseconds(10);
    constexpr int attempts = 3000;
    for (int attempt = 0; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0; ++attempt) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return;
        if (attempt == attempts) {
            ::close(std::exchange(descriptor_, -1));
            fail_output(path, "its folder is kept locked by another program", EWOULDBLOCK);
        }
        std::this_thread::sleep_for(pause);
    }
}

FolderLock::~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

std::string temporary_beside(const std::string& target, const std::string& path) {
    std::uint64_t word = 0;
    if (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) {
        fail_output(path, "cannot be written", errno);
    }
    const std::size_t slash = target.rfind('/');
    const std::string base = slash == std::string::npos ? target : target.substr(slash + 1);
    const std::string prefix = slash == std::string::npos ? "" : target.substr(0, slash + 1);
    return fmt::format("{}.{}.{:016x}.tmp", prefix, base.substr(0, 200), word);  // names end at 255 bytes
}

}  // namespace eplb
