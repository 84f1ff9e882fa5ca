// Work that may crash, done in a child process: libraries that do not survive hostile files.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace eplb {

struct ChildLimits {
    std::size_t memory = std::size_t{1} << 28;  // bytes of address space beyond what the process has now
    int cpu_seconds = 600;
};

struct ChildResult {
    bool finished = false;  // the work returned; else it died of `signal` or ended the process itself
    int signal = 0;         // 0 when it ended with exit()
    std::string answer;     // what the work returned, whole only when finished
};

// Runs `work` in a fork of this process and returns its answer; what it prints is discarded. The work must not rely on
// threads of the parent, and memory that it writes is lost unless it is shared. An Error or other exception that leaves
// `work` counts as not finished. Throws Error{internal} when no child can be made.
ChildResult run_in_child(const ChildLimits& limits, const std::function<std::string()>& work);

// Within `work`: allows as many bytes of address space beyond what the process has now, once their number is known.
void limit_address_space(std::size_t beyond_now);

// Memory that a child of this process fills and the parent reads. It grows on demand through resize().
class SharedMemory {
  public:
    SharedMemory();
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    std::byte* resize(std::size_t size);           // in the child: makes it `size` bytes and maps it for writing
    const std::byte* map(std::size_t size) const;  // in the parent: maps it for reading; nullptr when it is smaller

  private:
    int descriptor_ = -1;
    mutable std::byte* data_ = nullptr;
    mutable std::size_t size_ = 0;
};

}  // namespace eplb
