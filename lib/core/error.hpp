// The one exception type of the project, and the exit code each kind of failure maps to.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace eplb {

// The value is the exit code of a program that ends with this error (docs/reference.md).
enum class ErrorCode {
    usage = 2,       // flags that do not parse or do not go together
    input = 3,       // an input cannot be decoded, or inputs do not fit together
    infeasible = 4,  // no legal layout exists for this geometry
    output = 5,      // an output exists or cannot be written
    internal = 70,   // a bug of ours
};

// One error is one line: "<where>: <what> (<hint>)".
//   where  a coordinate: file, byte or JSON path, layer, slot; empty where the command line is meant
//   what   what is wrong, with the offending value
//   hint   what to do about it; may be empty
// The parts are kept printable(): they quote names and values of untrusted files.
class Error : public std::exception {
  public:
    Error(ErrorCode code, std::string where, std::string what, std::string hint = "");

    ErrorCode code() const noexcept { return code_; }
    const std::string& where() const noexcept { return where_; }
    const std::string& message() const noexcept { return message_; }
    const std::string& hint() const noexcept { return hint_; }
    const char* what() const noexcept override { return line_.c_str(); }  // the whole line

    // The stable code under which a validator reports this error as a finding ("TRUNCATED", docs/reference.md); empty
    // where the error is no statement about an input's content.
    const std::string& finding_code() const noexcept { return finding_code_; }

    // The same error with `outer` put before its place: a reader that knows bytes says "byte 12", its caller adds the
    // file.
    Error inside(std::string_view outer) const;
    // The same error under a finding code: throw Error(...).as_finding("TRUNCATED").
    Error as_finding(std::string_view finding_code) const;

  private:
    ErrorCode code_;
    std::string where_, message_, hint_, finding_code_, line_;
};

// In a catch (...) of whoever reads `place`, a file: throws the current exception again, an Error with `place` before
// its own place, and memory that ran out (std::bad_alloc, std::length_error) as an Error{input} at `place`.
[[noreturn]] void rethrow_inside(std::string_view place);

}  // namespace eplb
