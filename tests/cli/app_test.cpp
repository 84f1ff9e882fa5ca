// The frame of a program, seen from outside: each case runs in a child process.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <new>
#include <string>

#include "cli/app.hpp"
#include "core/error.hpp"
#include "files/mapped_file.hpp"
#include "files/temporary_folder.hpp"

using namespace eplb;

namespace {

struct Outcome {
    int code = 0;  // -1: died of a signal
    std::string errors;
};

// run_app(body) in a child whose stderr is a file, after `prepare` there.
Outcome run(
    const std::function<int()>& body, const std::function<void()>& prepare = [] {}) {
    const TemporaryFolder folder;
    const std::string path = folder.write("stderr", "");
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(::open(path.c_str(), O_WRONLY), STDERR_FILENO);
        prepare();
        ::_exit(cli::run_app("eplb-test", body));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(path)};
}

}  // namespace

TEST_CASE("a mapped file that becomes shorter ends the program with one line and exit code 3") {
    const TemporaryFolder folder;
    const std::string path = folder.write("x", std::string(4 << 20, 'a'));
    const Outcome outcome = run([&] {
        const auto file = MappedFile::open(path);
        if (::truncate(path.c_str(), 0) != 0) return 1;
        int sum = 0;
        for (const char c : file->text()) sum += c;
        return sum == 0 ? 1 : 2;
    });
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.errors,
               Catch::StartsWith("eplb-test: error: an input became shorter") && Catch::EndsWith(")\n"));
}

TEST_CASE("memory that runs out is exit code 3, with the input where that is known") {
    const auto scarce = []() -> int { throw std::bad_alloc(); };
    CHECK(run(scarce).code == 3);
    const Outcome named = run([&] {
        cli::on_input("counts.pt", scarce);
        return 0;
    });
    CHECK(named.code == 3);
    CHECK_THAT(named.errors, Catch::StartsWith("eplb-test: error: counts.pt: needs more memory"));
}

TEST_CASE("an error that cannot be printed keeps its exit code") {
    const auto fail = []() -> int { throw Error(ErrorCode::infeasible, "", "no"); };
    CHECK(run(fail).errors == "eplb-test: error: no\n");
    CHECK(run(fail, [] { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); }).code == 4);
    CHECK(run(fail, [] { ::close(STDERR_FILENO); }).code == 4);
}

TEST_CASE("no input takes the number of a standard descriptor that is closed") {
    const TemporaryFolder folder;
    const std::string path = folder.write("x", "abc");
    const auto number_of_next = [&] { return ::open(path.c_str(), O_RDONLY); };
    CHECK(run(number_of_next, [] { ::close(STDIN_FILENO), ::close(STDOUT_FILENO), ::close(STDERR_FILENO); }).code >= 3);
}
