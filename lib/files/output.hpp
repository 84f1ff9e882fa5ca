// Outputs that are whole or absent.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

// The outputs of one run. add() writes a temporary neighbour of the path, fsyncs it, re-reads and compares it; commit()
// renames them in the order of add() (so the layout is added last) and fsyncs the folder. Without commit() nothing is
// left behind. Without `force` an existing path is Error{output}, and of several writers at once exactly one commits;
// with it the files that stand in the end are all of one writer.
// Every failure is Error{output} that names the path and the system's reason.
class OutputSet {
  public:
    explicit OutputSet(bool force);
    ~OutputSet();
    OutputSet(const OutputSet&) = delete;
    OutputSet& operator=(const OutputSet&) = delete;

    void add(const std::string& path, std::span<const std::byte> bytes);
    void add(const std::string& path, std::string_view text);
    void commit();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// What add() and commit() would refuse after hours of work, refused before them: a path that exists or is no file, and
// a folder that is missing or takes no new file. Throws Error{output} as they do.
void require_writable(const std::string& path, bool force);

}  // namespace eplb
