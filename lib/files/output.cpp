#include "files/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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
#include <map>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "files/output_system.hpp"

namespace eplb {
namespace {

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

// Where the bytes have to go, and the permissions to keep; refuses what must never be replaced.
std::string resolve_target(const std::string& path, bool force, std::optional<mode_t>& mode) {
    struct stat status {};
    if (path.empty()) throw Error(ErrorCode::output, "", "an output needs a name");
    if (::lstat(path.c_str(), &status) != 0) {
        if (errno != ENOENT) fail_output(path, "cannot be written", errno);
        return path;
    }
    const bool is_link = S_ISLNK(status.st_mode);
    if (is_link && ::stat(path.c_str(), &status) != 0) {
        throw Error(ErrorCode::output, path, "is a symbolic link that leads nowhere", "remove it or name another path");
    }
    if (!S_ISREG(status.st_mode)) {
        throw Error(ErrorCode::output, path, "exists and is no regular file", "name another path");
    }
    if (!force) refuse_existing(path);
    mode = status.st_mode & 07777;
    if (!is_link) return path;
    std::array<char, PATH_MAX> resolved;
    if (::realpath(path.c_str(), resolved.data()) == nullptr) fail_output(path, "cannot be followed", errno);
    return resolved.data();
}

class OpenFile {
  public:
    OpenFile(const std::string& shown_path, const std::string& path)
        : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
        if (descriptor_ < 0)
            fail_output(shown_path, "cannot be written", errno, errno == ENOENT ? "make its folder first" : "");
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

void compare_all(const std::string& path, int descriptor, std::span<const std::byte> bytes) {
    std::array<std::byte, 1 << 16> buffer;
    std::size_t offset = 0;
    for (;;) {
        const ssize_t got = ::pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail_output(path, "cannot be read back", errno);
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

// Gives the temporary its final name only if nobody has it: of writers at once exactly one succeeds.
void publish_exclusively(const std::string& path, const std::string& temporary, const std::string& target) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) refuse_existing(path);
    // NFS and others know no such rename; a hard link refuses an existing name as well.
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail_output(path, "cannot be written", errno);
    if (::link(temporary.c_str(), target.c_str()) != 0) {
        if (errno == EEXIST) refuse_existing(path);
        fail_output(path, "this file system cannot create a file exclusively", errno, "--force writes without that");
    }
    ::unlink(temporary.c_str());
}

}  // namespace

struct OutputSet::State {
    struct Pending {
        std::string path;       // as given, for messages
        std::string target;     // what is replaced: `path`, or what its symbolic link names
        std::string temporary;  // neighbour of the target; empty once renamed
        bool published = false;
    };

    bool force = false, committed = false;
    std::vector<Pending> outputs;

    std::map<std::string, std::string> folders() const;  // folder -> path of an output in it
};

OutputSet::OutputSet(bool force) : state_(std::make_unique<State>()) {
    state_->force = force;
}

OutputSet::~OutputSet() {
    if (state_->committed) return;
    for (const State::Pending& output : state_->outputs) {
        if (!output.temporary.empty()) ::unlink(output.temporary.c_str());
        // What an exclusive commit published before it failed is ours alone. A replaced file cannot be brought back.
        if (output.published && !state_->force) ::unlink(output.target.c_str());
    }
}

void OutputSet::add(const std::string& path, std::span<const std::byte> bytes) {
    std::optional<mode_t> mode;
    State::Pending output{path, resolve_target(path, state_->force, mode), "", false};
    output.temporary = temporary_beside(output.target, path);
    OpenFile file(path, output.temporary);
    state_->outputs.push_back(output);
    if (mode && ::fchmod(file.get(), *mode) != 0) fail_output(path, "its permissions cannot be kept", errno);
    write_all(path, file.get(), bytes);
    if (::fsync(file.get()) != 0) fail_output(path, "cannot be written", errno);
    compare_all(path, file.get(), bytes);
    if (file.close() != 0) fail_output(path, "cannot be written", errno);
}

void OutputSet::add(const std::string& path, std::string_view text) {
    add(path, std::as_bytes(std::span(text)));
}

// The folders of the outputs, each once and in one order, so that no two writers wait for each other.
std::map<std::string, std::string> OutputSet::State::folders() const {
    std::map<std::string, std::string> path_of;
    for (const Pending& output : outputs) path_of.emplace(folder_of(output.target), output.path);
    return path_of;
}

void OutputSet::commit() {
    const std::map<std::string, std::string> path_of = state_->folders();
    std::vector<FolderLock> locks;
    for (const auto& [folder, path] : path_of) locks.emplace_back(path, folder);
    for (State::Pending& output : state_->outputs) {
        if (!state_->force) {
            publish_exclusively(output.path, output.temporary, output.target);
        } else if (::rename(output.temporary.c_str(), output.target.c_str()) != 0) {
            fail_output(output.path, "cannot be written", errno);
        }
        output.temporary.clear();
        output.published = true;
    }
    state_->committed = true;  // from here on the outputs stand, synced or not
    for (const auto& [folder, path] : path_of) sync_folder(path, folder);
}

void require_writable(const std::string& path, bool force) {
    std::optional<mode_t> ignored;
    const std::string target = resolve_target(path, force, ignored), probe = temporary_beside(target, path);
    OpenFile file(path, probe);
    ::unlink(probe.c_str());
}

}  // namespace eplb
