// The frame around every program: the one catch ladder from errors to exit codes, and the writing of results.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace eplb::cli {

// Thrown while parsing flags: `text` goes to stdout and the program ends with 0 (--help, --version).
struct PrintAndExit {
    std::string text;
};

// Runs `body` and returns the exit code of the program: what body returns, or the code of the eplb::Error it throws
// (one line
// "<program>: error: <where>: <what> (<hint>)" on stderr), 3 when memory runs out or a mapped input becomes shorter,
// 130 when it was interrupted, 70 for anything else. Installs the Ctrl-C handler behind stop_requested().
int run_app(std::string_view program, const std::function<int()>& body);

// For the work that follows the reading: runs `body`, and names the input where it needs more memory than there is.
void on_input(const std::string& input, const std::function<void()>& body);

// Writes lines to stdout, each made printable(): names of files may hold anything. Throws Error{output} when that fails
// (a closed pipe, a full disk), as does run_app at its end.
void print(std::string_view text);

// True once Ctrl-C was pressed. A second Ctrl-C ends the process at once.
bool stop_requested();

}  // namespace eplb::cli
