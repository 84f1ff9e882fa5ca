// Inputs as bytes in memory, opened read-only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

// The bytes of one input. A regular file is read where it is small and mapped where it is large; a pipe, "-" (stdin)
// and what has no size of its own (/proc) is read to its end into anonymous memory. Readers keep the shared pointer as
// the owner of what they return. Bytes are those of the moment: a large file that another process shortens ends this
// process with SIGBUS, so inputs must be finished files.
class MappedFile {
  public:
    // Throws Error{input} that names the path and the system's reason.
    static std::shared_ptr<const MappedFile> open(const std::string& path);
    // A copy of `bytes` under a name, for what did not come from a file.
    static std::shared_ptr<const MappedFile> copy_of(std::string_view name, std::span<const std::byte> bytes);

    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::string& path() const { return path_; }  // as given
    std::span<const std::byte> bytes() const { return {data_, size_}; }
    std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
    // A path under which fopen() sees the same bytes, also those of stdin; valid in this process and its forks as long
    // as this object lives. Where it is_anonymous() the path has no real path behind it.
    std::string reopen_path() const;
    bool is_anonymous() const { return anonymous_; }

  private:
    MappedFile(std::string path, int descriptor, bool anonymous);
    static std::shared_ptr<const MappedFile> load(std::string path, int descriptor, bool anonymous);
    void map();
    void read();

    std::string path_;
    int descriptor_ = -1;
    bool anonymous_ = false;
    std::unique_ptr<std::byte[]> read_;  // the bytes of a small file
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace eplb
