// A folder of large outputs that is whole or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

struct WrittenFile {
    std::string sha256;
    std::uint64_t bytes = 0;
};

// Files are streamed into a temporary neighbour of the folder, hashed on the way and fsynced; commit() renames the
// neighbour to the folder. Without commit() nothing is left behind; a process that was killed leaves the neighbour,
// which the next writer of the same folder removes (a lock tells that nobody writes it any more). Without `force` an
// existing folder is Error{output}, and of several writers at once exactly one commits; with it the old folder is
// replaced as a whole and removed afterwards. Every failure is Error{output} that names the path and the system's
// reason.
class OutputFolder {
  public:
    OutputFolder(const std::string& path, bool force);
    ~OutputFolder();
    OutputFolder(const OutputFolder&) = delete;
    OutputFolder& operator=(const OutputFolder&) = delete;

    // One file at a time: open, write as often as needed, close.
    void open(const std::string& name);
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    WrittenFile close();  // fsyncs
    void commit();

    // Where the closed files lie until commit(), for reading them back.
    const std::string& temporary() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace eplb
