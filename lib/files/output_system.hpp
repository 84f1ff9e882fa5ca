// What files and folders that are written have in common with the system: failing, syncing, temporary names.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace eplb {

// Throws Error{output, path}: `what` and the text of the errno value `reason`.
[[noreturn]] void fail_output(const std::string& path, const char* what, int reason, std::string hint = "");

// The same for a name that is taken.
[[noreturn]] void refuse_existing(const std::string& path);

// Writes all bytes to the open file; Error{output} names `path`.
void write_all(const std::string& path, int descriptor, std::span<const std::byte> bytes);

// fsync of a folder, so that the names in it are on disk; Error{output} names `path`. Some network file systems cannot
// sync a folder, which is no error: the files themselves are on disk already.
void sync_folder(const std::string& path, const std::string& folder);

// Held while the files of one run get their names in `folder`: of writers at once, each publishes all of its files
// before another publishes its own. Goes with the process. Where the file system knows no locks it does nothing. Throws
// Error{output} that names `path` when another program keeps the folder locked for half a minute.
class FolderLock {
  public:
    FolderLock(const std::string& path, const std::string& folder);
    ~FolderLock();
    FolderLock(FolderLock&& other) noexcept;
    FolderLock& operator=(FolderLock&&) = delete;

  private:
    int descriptor_ = -1;
};

// A hidden name beside `target` that no other writer picks; Error{output} names `path`.
std::string temporary_beside(const std::string& target, const std::string& path);

}  // namespace eplb
