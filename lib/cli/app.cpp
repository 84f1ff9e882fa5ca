#include "cli/app.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/progress.hpp"

namespace eplb::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int signal) {
    interrupted = signal;
    std::signal(signal, SIG_DFL);
}

constexpr int broken_pipe = 128 + SIGPIPE;  // what a shell shows for a program that SIGPIPE ended

// The reader of stdout went away, as head does when it has enough: an end, not an error to talk about.
struct ReaderGone {};

[[noreturn]] void fail_stdout() {
    if (errno == EPIPE) throw ReaderGone();
    throw Error(ErrorCode::output, "stdout", fmt::format("cannot be written: {}", std::strerror(errno)));
}

// Where stderr takes no more the exit code alone tells.
int fail(std::string_view program, int code, std::string_view line) {
    std::fflush(stdout);
    std::string one_line(line);
    for (char& c : one_line) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    one_line = fmt::format("{}: error: {}\n", program, printable(one_line));
    std::fwrite(one_line.data(), 1, one_line.size(), stderr);
    return code;
}

std::array<char, 512> lost_input_line{};  // made before it is needed: a signal handler may not allocate

// A mapped file that somebody shortens, or whose disk or network fails, ends in SIGBUS where its bytes are read.
void on_lost_input(int) {
    const ssize_t ignored = ::write(STDERR_FILENO, lost_input_line.data(), std::strlen(lost_input_line.data()));
    static_cast<void>(ignored);
    ::_exit(static_cast<int>(ErrorCode::input));
}

void catch_lost_inputs(std::string_view program) {
    const auto end = fmt::format_to_n(lost_input_line.data(), lost_input_line.size() - 1,
                                      "{}: error: an input became shorter while it was read, or its disk failed (name "
                                      "finished files)\n",
                                      program)
                         .out;
    *end = '\0';
    std::signal(SIGBUS, on_lost_input);
}

// A standard stream that the caller closed (2>&-) gets a descriptor that cannot be used: else the first file to be
// opened would get its number, and what is printed would be written there.
void fill_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
        const int useless = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (::open("/dev/null", useless) != stream) std::_Exit(static_cast<int>(ErrorCode::internal));
    }
}

}  // namespace

bool stop_requested() {
    return interrupted != 0;
}

void print(std::string_view text) {
    std::string shown;
    shown.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        shown += printable(text.substr(at, end - at));
        if (end < text.size()) shown += '\n';
        at = end + 1;
    }
    if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size()) fail_stdout();
}

int run_app(std::string_view program, const std::function<int()>& body) {
    fill_standard_streams();
    catch_lost_inputs(program);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        if (std::signal(signal, on_interrupt) == SIG_IGN) std::signal(signal, SIG_IGN);  // under nohup
    }
    std::signal(SIGPIPE, SIG_IGN);
    try {
        int code = 0;
        try {
            code = body();
        } catch (const PrintAndExit& exit) {
            print(exit.text);
        }
        if (std::fflush(stdout) != 0) fail_stdout();
        return code;
    } catch (const Error& error) {
        return fail(program, static_cast<int>(error.code()), error.what());
    } catch (const ReaderGone&) {
        return broken_pipe;
    } catch (const Interrupted&) {
        return fail(program, 128 + (interrupted != 0 ? interrupted : SIGINT), "interrupted; nothing was written");
    } catch (const std::bad_alloc&) {
        return fail(program, static_cast<int>(ErrorCode::input), "the inputs need more memory than there is");
    } catch (const std::exception& error) {
        return fail(
            program, static_cast<int>(ErrorCode::internal),
            fmt::format("unexpected: {} (this is a bug; please report it with the command line)", error.what()));
    }
}

void on_input(const std::string& input, const std::function<void()>& body) {
    try {
        body();
    } catch (const std::bad_alloc&) {
        rethrow_inside(input);
    } catch (const std::length_error&) {
        rethrow_inside(input);
    }
}

}  // namespace eplb::cli
