#include "files/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/output_system.hpp"

namespace eplb {
namespace {

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

int open_folder(const std::string& path) {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Of folders that a killed process left: ".NAME.<16 hex digits>.tmp" beside the target. Whoever writes one holds a lock
// on it. Where the file system has no such locks nothing is removed.
void remove_abandoned(const std::filesystem::path& target) {
    const std::string start = fmt::format(".{}.", target.filename().string());
    const std::filesystem::path parent = target.parent_path().empty() ? "." : target.parent_path();
    std::error_code ignored;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(parent, ignored)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(start) || !name.ends_with(".tmp") ||
            name.size() != start.size() + 16 + std::string_view(".tmp").size() ||
            name.find_first_not_of("0123456789abcdef", start.size()) != start.size() + 16) {
            continue;  // no name that a writer could have made
        }
        const int descriptor = open_folder(entry.path().string());
        if (descriptor < 0) continue;
        if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(entry.path(), ignored);
        ::close(descriptor);
    }
}

}  // namespace

struct OutputFolder::State {
    std::string path, temporary, name;  // `name` of the open file
    bool force = false, committed = false;
    int descriptor = -1, lock = -1;
    std::uint64_t bytes = 0;
    std::optional<Sha256> digest;

    // A new temporary folder under a lock. Between its creation and the lock another writer may take it for abandoned;
    // then it is made anew.
    void make_temporary() {
        for (int attempt = 0; attempt < 16; ++attempt) {
            temporary = temporary_beside(path, path);
            if (::mkdir(temporary.c_str(), 0777) != 0)
                fail_output(path, "cannot be written", errno, "make its folder first");
            lock = open_folder(temporary);
            if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
                ::close(std::exchange(lock, -1));
            } else if (exists(temporary)) {
                return;
            }
        }
        fail_output(path, "cannot be written", EAGAIN);
    }

    std::string shown() const { return path + "/" + name; }
};

OutputFolder::OutputFolder(const std::string& path, bool force) : state_(std::make_unique<State>()) {
    state_->path = path;
    while (state_->path.size() > 1 && state_->path.back() == '/') state_->path.pop_back();
    state_->force = force;
    if (exists(state_->path) && !force) refuse_existing(state_->path);
    remove_abandoned(state_->path);
    state_->make_temporary();
}

OutputFolder::~OutputFolder() {
    if (state_->descriptor >= 0) ::close(state_->descriptor);
    if (!state_->committed) {
        std::error_code ignored;
        std::filesystem::remove_all(state_->temporary, ignored);
    }
    if (state_->lock >= 0) ::close(state_->lock);
}

void OutputFolder::open(const std::string& name) {
    state_->name = name;
    state_->bytes = 0;
    state_->digest.emplace();
    const std::string path = state_->temporary + "/" + name;
    state_->descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (state_->descriptor < 0) fail_output(state_->shown(), "cannot be written", errno);
}

void OutputFolder::write(std::span<const std::byte> bytes) {
    state_->digest->update(bytes);
    state_->bytes += bytes.size();
    write_all(state_->shown(), state_->descriptor, bytes);
}

void OutputFolder::write(std::string_view text) {
    write(std::as_bytes(std::span(text)));
}

WrittenFile OutputFolder::close() {
    if (::fsync(state_->descriptor) != 0) fail_output(state_->shown(), "cannot be written", errno);
    const int descriptor = std::exchange(state_->descriptor, -1);
    if (::close(descriptor) != 0) fail_output(state_->shown(), "cannot be written", errno);
    return {state_->digest->hex(), state_->bytes};
}

const std::string& OutputFolder::temporary() const {
    return state_->temporary;
}

void OutputFolder::commit() {
    sync_folder(state_->path, state_->temporary);
    const char* from = state_->temporary.c_str();
    const char* to = state_->path.c_str();
    std::error_code ignored;
    if (state_->force && ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
        std::filesystem::remove_all(state_->temporary, ignored);  // now the old one
    } else if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
        if (errno == EEXIST && !state_->force) refuse_existing(state_->path);
        // Where the file system knows neither kind of rename, a plain one still refuses a folder that is not empty.
        const bool unknown = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
        if (errno == EEXIST || (unknown && state_->force && exists(state_->path))) {
            const std::string old = state_->temporary + ".old";
            if (::rename(to, old.c_str()) != 0) fail_output(state_->path, "cannot be replaced", errno);
            if (::rename(from, to) != 0) {
                const int reason = errno;
                ::rename(old.c_str(), to);
                fail_output(state_->path, "cannot be written", reason);
            }
            std::filesystem::remove_all(old, ignored);
        } else if (!unknown || ::rename(from, to) != 0) {
            if (errno == EEXIST || errno == ENOTEMPTY) refuse_existing(state_->path);
            fail_output(state_->path, "cannot be written", errno);
        }
    }
    state_->committed = true;
    const std::filesystem::path parent = std::filesystem::path(state_->path).parent_path();
    sync_folder(state_->path, parent.empty() ? "." : parent.string());
}

}  // namespace eplb
