#include "files/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr std::size_t small_file = std::size_t{1} << 20;  // reading is as fast as mapping, and nobody can shorten it

[[noreturn]] void fail(const std::string& path, const char* what) {
    throw Error(ErrorCode::input, path, fmt::format("{}: {}", what, std::strerror(errno)));
}

// Closes on every way out until it is given away.
class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return value_; }
    int release() {
        const int value = value_;
        value_ = -1;
        return value;
    }

  private:
    int value_;
};

void keep_all(const std::string& path, int descriptor, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail(path, "cannot be kept in memory");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

// Anonymous memory with a file descriptor: grows without the second copy that a growing vector needs.
int make_memory_file(const std::string& path) {
    const int descriptor = ::memfd_create("eplb-input", MFD_CLOEXEC);
    if (descriptor < 0) fail(path, "cannot be kept in memory");
    return descriptor;
}

int read_to_end(const std::string& path, int source) {
    constexpr std::size_t limit = std::size_t{1} << 34;  // 16 GiB: an endless pipe must not fill the machine
    Descriptor memory(make_memory_file(path));
    std::array<std::byte, 1 << 16> buffer;
    std::size_t size = 0;
    for (;;) {
        const ssize_t got = ::read(source, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path, "cannot be read");
        if (got == 0) return memory.release();
        size += static_cast<std::size_t>(got);
        if (size > limit) {
            throw Error(ErrorCode::input, path, "the stream is longer than 16 GiB", "save it as a file and name that");
        }
        keep_all(path, memory.get(), std::span(buffer).first(static_cast<std::size_t>(got)));
    }
}

}  // namespace

MappedFile::MappedFile(std::string path, int descriptor, bool anonymous)
    : path_(std::move(path)), descriptor_(descriptor), anonymous_(anonymous) {}

std::shared_ptr<const MappedFile> MappedFile::load(std::string path, int descriptor, bool anonymous) {
    const std::shared_ptr<MappedFile> file(new MappedFile(std::move(path), descriptor, anonymous));
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) fail(file->path_, "cannot be examined");
    file->size_ = static_cast<std::size_t>(status.st_size);
    if (file->size_ > small_file || anonymous) {
        file->map();
    } else {
        file->read();
    }
    return file;
}

void MappedFile::map() {
    if (size_ == 0) return;
    void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (mapping == MAP_FAILED) fail(path_, "cannot be mapped");
    data_ = static_cast<const std::byte*>(mapping);
}

void MappedFile::read() {
    read_ = std::make_unique_for_overwrite<std::byte[]>(size_);
    std::size_t have = 0;
    while (have < size_) {
        const ssize_t got = ::pread(descriptor_, read_.get() + have, size_ - have, static_cast<off_t>(have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path_, "cannot be read");
        if (got == 0) break;  // it became shorter
        have += static_cast<std::size_t>(got);
    }
    size_ = have;
    data_ = read_.get();
}

MappedFile::~MappedFile() {
    if (data_ != nullptr && !read_) ::munmap(const_cast<std::byte*>(data_), size_);
    ::close(descriptor_);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
    if (path == "-") return load(path, read_to_end(path, STDIN_FILENO), true);
    Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (descriptor.get() < 0) fail(path, "cannot be opened");
    struct stat status {};
    if (::fstat(descriptor.get(), &status) != 0) fail(path, "cannot be examined");
    if (S_ISDIR(status.st_mode)) {
        throw Error(ErrorCode::input, path, "is a directory", "name the files in it");
    }
    if (S_ISREG(status.st_mode) && status.st_size > 0) return load(path, descriptor.release(), false);
    return load(path, read_to_end(path, descriptor.get()), true);
}

std::shared_ptr<const MappedFile> MappedFile::copy_of(std::string_view name, std::span<const std::byte> bytes) {
    std::string path(name);
    Descriptor memory(make_memory_file(path));
    keep_all(path, memory.get(), bytes);
    return load(std::move(path), memory.release(), true);
}

std::string MappedFile::reopen_path() const {
    return fmt::format("/proc/self/fd/{}", descriptor_);
}

}  // namespace eplb
