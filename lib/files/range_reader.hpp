// Ranges of files, piece by piece through one buffer: not through a mapping, so that memory stays bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace eplb {

class RangeReader {
  public:
    RangeReader();
    ~RangeReader();
    RangeReader(const RangeReader&) = delete;
    RangeReader& operator=(const RangeReader&) = delete;

    // Hands the bytes [begin, begin + size) of a file to `take` in pieces of at most 8 MB. The file stays open until
    // another one is read. Throws Error{input} that names the path, also when the file is shorter.
    void read(const std::string& path, std::uint64_t begin, std::uint64_t size,
              const std::function<void(std::span<const std::byte>)>& take);

  private:
    void open(const std::string& path);

    std::unique_ptr<std::byte[]> buffer_;
    std::string path_;
    int descriptor_ = -1;
};

}  // namespace eplb
