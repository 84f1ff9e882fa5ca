#include "files/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
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

namespace eplb {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int reason, std::string hint = "") {
    throw Error(ErrorCode::output, path, fmt::format("{}: {}", what, std::strerror(reason)), std::move(hint));
}

[[noreturn]] void refuse_existing(const std::string& path) {
    throw Error(ErrorCode::output, path, "exists", "--force replaces it");
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

void sync_folder(const std::string& path, const std::string& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail(path, "cannot be synced", errno);
    const int result = ::fsync(descriptor), reason = errno;
    ::close(descriptor);
    // Some network file systems cannot sync a folder; the files themselves are on disk already.
    if (result != 0 && reason != EINVAL && reason != EROFS && reason != ENOTSUP) fail(path, "cannot be synced", reason);
}

}  // namespace

struct OutputFolder::State {
    std::string path, temporary, name;  // `name` of the open file
    bool force = false, committed = false;
    int descriptor = -1;
    std::uint64_t bytes = 0;
    std::optional<Sha256> digest;

    std::string shown() const { return path + "/" + name; }
};

OutputFolder::OutputFolder(const std::string& path, bool force) : state_(std::make_unique<State>()) {
    state_->path = path;
    while (state_->path.size() > 1 && state_->path.back() == '/') state_->path.pop_back();
    state_->force = force;
    if (exists(state_->path) && !force) refuse_existing(state_->path);
    std::uint64_t word = 0;
    if (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) fail(path, "cannot be written", errno);
    const std::filesystem::path target(state_->path);
    state_->temporary =
        (target.parent_path() / fmt::format(".{}.{:016x}.tmp", target.filename().string(), word)).string();
    if (::mkdir(state_->temporary.c_str(), 0777) != 0) fail(path, "cannot be written", errno, "make its folder first");
}

OutputFolder::~OutputFolder() {
    if (state_->descriptor >= 0) ::close(state_->descriptor);
    if (state_->committed) return;
    std::error_code ignored;
    std::filesystem::remove_all(state_->temporary, ignored);
}

void OutputFolder::open(const std::string& name) {
    state_->name = name;
    state_->bytes = 0;
    state_->digest.emplace();
    const std::string path = state_->temporary + "/" + name;
    state_->descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (state_->descriptor < 0) fail(state_->shown(), "cannot be written", errno);
}

void OutputFolder::write(std::span<const std::byte> bytes) {
    state_->digest->update(bytes);
    state_->bytes += bytes.size();
    while (!bytes.empty()) {
        const ssize_t written = ::write(state_->descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail(state_->shown(), "cannot be written", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void OutputFolder::write(std::string_view text) {
    write(std::as_bytes(std::span(text)));
}

WrittenFile OutputFolder::close() {
    if (::fsync(state_->descriptor) != 0) fail(state_->shown(), "cannot be written", errno);
    const int descriptor = std::exchange(state_->descriptor, -1);
    if (::close(descriptor) != 0) fail(state_->shown(), "cannot be written", errno);
    return {state_->digest->hex(), state_->bytes};
}

void OutputFolder::commit() {
    sync_folder(state_->path, state_->temporary);
    const char* from = state_->temporary.c_str();
    const char* to = state_->path.c_str();
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
        if (errno == EEXIST && !state_->force) refuse_existing(state_->path);
        // Where the file system knows no exclusive rename, a plain one still refuses a folder that is not empty.
        const bool unknown = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
        if (errno == EEXIST || (unknown && state_->force && exists(state_->path))) {
            const std::string old = state_->temporary + ".old";
            if (::rename(to, old.c_str()) != 0) fail(state_->path, "cannot be replaced", errno);
            if (::rename(from, to) != 0) {
                const int reason = errno;
                ::rename(old.c_str(), to);
                fail(state_->path, "cannot be written", reason);
            }
            std::error_code ignored;
            std::filesystem::remove_all(old, ignored);
        } else if (!unknown || ::rename(from, to) != 0) {
            if (errno == EEXIST || errno == ENOTEMPTY) refuse_existing(state_->path);
            fail(state_->path, "cannot be written", errno);
        }
    }
    state_->committed = true;
    const std::filesystem::path parent = std::filesystem::path(state_->path).parent_path();
    sync_folder(state_->path, parent.empty() ? "." : parent.string());
}

}  // namespace eplb
