#include "files/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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
    state_->temporary = temporary_beside(state_->path, path);
    if (::mkdir(state_->temporary.c_str(), 0777) != 0)
        fail_output(path, "cannot be written", errno, "make its folder first");
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
            if (::rename(to, old.c_str()) != 0) fail_output(state_->path, "cannot be replaced", errno);
            if (::rename(from, to) != 0) {
                const int reason = errno;
                ::rename(old.c_str(), to);
                fail_output(state_->path, "cannot be written", reason);
            }
            std::error_code ignored;
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
