#include "files/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr const char* force_hint = "--force replaces it";

[[noreturn]] void fail(const std::string& path, const char* what, int reason, std::string hint = "") {
    throw Error(ErrorCode::output, path, fmt::format("{}: {}", what, std::strerror(reason)), std::move(hint));
}

struct Pending {
    std::string path;       // as given, for messages
    std::string target;     // what is replaced: `path`, or what its symbolic link names
    std::string temporary;  // neighbour of the target; empty once renamed
    bool published = false;
};

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& target) {
    std::uint64_t word = 0;
    if (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word))
        fail(target, "cannot be written", errno);
    const std::size_t slash = target.rfind('/');
    const std::string base = slash == std::string::npos ? target : target.substr(slash + 1);
    const std::string prefix = slash == std::string::npos ? "" : target.substr(0, slash + 1);
    return fmt::format("{}.{}.{:016x}.tmp", prefix, base.substr(0, 200), word);  // names end at 255 bytes
}

// Where the bytes have to go, and the permissions to keep; refuses what must never be replaced.
std::string resolve_target(const std::string& path, bool force, std::optional<mode_t>& mode) {
    struct stat status {};
    if (path.empty()) throw Error(ErrorCode::output, "", "an output needs a name");
    if (::lstat(path.c_str(), &status) != 0) {
        if (errno != ENOENT) fail(path, "cannot be written", errno);
        return path;
    }
    const bool is_link = S_ISLNK(status.st_mode);
    if (is_link && ::stat(path.c_str(), &status) != 0) {
        throw Error(ErrorCode::output, path, "is a symbolic link that leads nowhere", "remove it or name another path");
    }
    if (!S_ISREG(status.st_mode)) {
        throw Error(ErrorCode::output, path, "exists and is no regular file", "name another path");
    }
    if (!force) throw Error(ErrorCode::output, path, "exists", force_hint);
    mode = status.st_mode & 07777;
    if (!is_link) return path;
    std::array<char, PATH_MAX> resolved;
    if (::realpath(path.c_str(), resolved.data()) == nullptr) fail(path, "cannot be followed", errno);
    return resolved.data();
}

class OpenFile {
  public:
    OpenFile(const std::string& shown_path, const std::string& path)
        : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
        if (descriptor_ < 0)
            fail(shown_path, "cannot be written", errno, errno == ENOENT ? "make its folder first" : "");
    }
    ~OpenFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    int get() const { return descriptor_; }
    int close() {
        const int descriptor = descriptor_;
        descriptor_ = -1;
        return ::close(descriptor);
    }

  private:
    int descriptor_;
};

void write_all(const std::string& path, int descriptor, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail(path, "cannot be written", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void compare_all(const std::string& path, int descriptor, std::span<const std::byte> bytes) {
    std::array<std::byte, 1 << 16> buffer;
    std::size_t offset = 0;
    for (;;) {
        const ssize_t got = ::pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path, "cannot be read back", errno);
        const auto size = static_cast<std::size_t>(got);
        const bool same =
            size <= bytes.size() - offset &&
            std::equal(buffer.begin(), buffer.begin() + got, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
        if (!same || (size == 0 && offset != bytes.size())) {
            throw Error(ErrorCode::output, path, fmt::format("reads back differently near byte {}", offset),
                        "the disk or file system is damaged");
        }
        if (size == 0) return;
        offset += size;
    }
}

void sync_folder(const std::string& path, const std::string& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail(path, "its folder cannot be synced", errno);
    const int result = ::fsync(descriptor), reason = errno;
    ::close(descriptor);
    // Some network file systems cannot sync a folder; the file itself is on disk already.
    if (result != 0 && reason != EINVAL && reason != EROFS && reason != ENOTSUP) {
        fail(path, "its folder cannot be synced", reason);
    }
}

// Gives the temporary its final name only if nobody has it: of writers at once exactly one succeeds.
void publish_exclusively(const Pending& output) {
    if (::renameat2(AT_FDCWD, output.temporary.c_str(), AT_FDCWD, output.target.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) throw Error(ErrorCode::output, output.path, "exists", force_hint);
    // NFS and others know no such rename; a hard link refuses an existing name as well.
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail(output.path, "cannot be written", errno);
    if (::link(output.temporary.c_str(), output.target.c_str()) != 0) {
        if (errno == EEXIST) throw Error(ErrorCode::output, output.path, "exists", force_hint);
        fail(output.path, "this file system cannot create a file exclusively", errno, "--force writes without that");
    }
    ::unlink(output.temporary.c_str());
}

}  // namespace

struct OutputSet::State {
    bool force = false, committed = false;
    std::vector<Pending> outputs;
};

OutputSet::OutputSet(bool force) : state_(std::make_unique<State>()) {
    state_->force = force;
}

OutputSet::~OutputSet() {
    if (state_->committed) return;
    for (const Pending& output : state_->outputs) {
        if (!output.temporary.empty()) ::unlink(output.temporary.c_str());
        // What an exclusive commit published before it failed is ours alone. A replaced file cannot be brought back.
        if (output.published && !state_->force) ::unlink(output.target.c_str());
    }
}

void OutputSet::add(const std::string& path, std::span<const std::byte> bytes) {
    std::optional<mode_t> mode;
    Pending output{path, resolve_target(path, state_->force, mode), "", false};
    output.temporary = temporary_name(output.target);
    OpenFile file(path, output.temporary);
    state_->outputs.push_back(output);
    if (mode && ::fchmod(file.get(), *mode) != 0) fail(path, "its permissions cannot be kept", errno);
    write_all(path, file.get(), bytes);
    if (::fsync(file.get()) != 0) fail(path, "cannot be written", errno);
    compare_all(path, file.get(), bytes);
    if (file.close() != 0) fail(path, "cannot be written", errno);
}

void OutputSet::add(const std::string& path, std::string_view text) {
    add(path, std::as_bytes(std::span(text)));
}

void OutputSet::commit() {
    for (Pending& output : state_->outputs) {
        if (!state_->force) {
            publish_exclusively(output);
        } else if (::rename(output.temporary.c_str(), output.target.c_str()) != 0) {
            fail(output.path, "cannot be written", errno);
        }
        output.temporary.clear();
        output.published = true;
    }
    state_->committed = true;  // from here on the outputs stand, synced or not
    std::vector<std::string> synced;
    for (const Pending& output : state_->outputs) {
        const std::string folder = folder_of(output.target);
        if (std::find(synced.begin(), synced.end(), folder) != synced.end()) continue;
        sync_folder(output.path, folder);
        synced.push_back(folder);
    }
}

}  // namespace eplb
