#include "cli/app.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "core/error.hpp"
#include "core/progress.hpp"

namespace eplb::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int signal) {
    interrupted = 1;
    std::signal(signal, SIG_DFL);
}

int fail(std::string_view program, int code, std::string_view line) {
    std::fflush(stdout);
    std::string one_line(line);
    for (char& c : one_line) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    fmt::print(stderr, "{}: error: {}\n", program, one_line);
    return code;
}

}  // namespace

bool stop_requested() {
    return interrupted != 0;
}

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
        throw Error(ErrorCode::output, "stdout", "cannot be written");
    }
}

int run_app(std::string_view program, const std::function<int()>& body) {
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        int code = 0;
        try {
            code = body();
        } catch (const PrintAndExit& exit) {
            print(exit.text);
        }
        if (std::fflush(stdout) != 0) throw Error(ErrorCode::output, "stdout", "cannot be written");
        return code;
    } catch (const Error& error) {
        return fail(program, static_cast<int>(error.code()), error.what());
    } catch (const Interrupted&) {
        return fail(program, 130, "interrupted; nothing was written");
    } catch (const std::bad_alloc&) {
        return fail(program, static_cast<int>(ErrorCode::internal), "out of memory");
    } catch (const std::exception& error) {
        return fail(
            program, static_cast<int>(ErrorCode::internal),
            fmt::format("unexpected: {} (this is a bug; please report it with the command line)", error.what()));
    }
}

}  // namespace eplb::cli
