#include "files/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/error.hpp"

namespace eplb {
namespace {

constexpr int unfinished = 1;

[[noreturn]] void fail(const char* what) {
    throw Error(ErrorCode::internal, "", fmt::format("{}: {}", what, std::strerror(errno)));
}

// Address space in use now, from /proc/self/statm; 0 where that cannot be read.
std::size_t current_address_space() {
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr) return 0;
    unsigned long pages = 0;
    const int read = std::fscanf(file, "%lu", &pages);
    std::fclose(file);
    return read == 1 ? pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

void apply(const ChildLimits& limits) {
    limit_address_space(limits.memory);
    const rlimit time{static_cast<rlim_t>(limits.cpu_seconds), static_cast<rlim_t>(limits.cpu_seconds) + 1};
    ::setrlimit(RLIMIT_CPU, &time);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
}

[[noreturn]] void be_child(const ChildLimits& limits, const std::function<std::string()>& work, int answer_to) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        ::dup2(nowhere, STDOUT_FILENO);
        ::dup2(nowhere, STDERR_FILENO);
    }
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGXCPU}) {
        std::signal(signal, SIG_DFL);
    }
    std::signal(SIGINT, SIG_IGN);        // Ctrl-C is the parent's to answer
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // and the child does not outlive it
    apply(limits);
    try {
        const std::string answer = work();
        for (std::size_t sent = 0; sent < answer.size();) {
            const ssize_t written = ::write(answer_to, answer.data() + sent, answer.size() - sent);
            if (written < 0 && errno != EINTR) ::_exit(unfinished);
            if (written > 0) sent += static_cast<std::size_t>(written);
        }
        ::_exit(0);
    } catch (...) {
        ::_exit(unfinished);
    }
}

}  // namespace

void limit_address_space(std::size_t beyond_now) {
    constexpr std::size_t sane = std::size_t{1} << 40;  // a sanitizer reserves terabytes: no limit there
    const std::size_t used = current_address_space();
    rlimit limit{};
    if (used == 0 || used > sane || beyond_now > sane || ::getrlimit(RLIMIT_AS, &limit) != 0) return;
    limit.rlim_cur = std::min<rlim_t>(used + beyond_now, limit.rlim_max);
    ::setrlimit(RLIMIT_AS, &limit);
}

ChildResult run_in_child(const ChildLimits& limits, const std::function<std::string()>& work) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("no pipe can be made");
    const pid_t child = ::fork();
    if (child < 0) {
        const int reason = errno;
        ::close(ends[0]);
        ::close(ends[1]);
        errno = reason;
        fail("no child process can be made");
    }
    if (child == 0) {
        ::close(ends[0]);
        be_child(limits, work, ends[1]);
    }
    ::close(ends[1]);
    ChildResult result;
    std::array<char, 4096> buffer;
    for (;;) {
        const ssize_t got = ::read(ends[0], buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        result.answer.append(buffer.data(), static_cast<std::size_t>(got));
    }
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) fail("a child process is lost");
    }
    result.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return result;
}

SharedMemory::SharedMemory() : descriptor_(::memfd_create("eplb-shared", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail("no shared memory can be made");
}

SharedMemory::~SharedMemory() {
    if (data_ != nullptr) ::munmap(data_, size_);
    ::close(descriptor_);
}

std::byte* SharedMemory::resize(std::size_t size) {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail("shared memory cannot grow");
    if (size == 0) return nullptr;
    void* mapping = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (mapping == MAP_FAILED) fail("shared memory cannot be mapped");
    data_ = static_cast<std::byte*>(mapping);
    size_ = size;
    return data_;
}

const std::byte* SharedMemory::map(std::size_t size) const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || static_cast<std::size_t>(status.st_size) < size || size == 0) {
        return nullptr;
    }
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (mapping == MAP_FAILED) fail("shared memory cannot be mapped");
    data_ = static_cast<std::byte*>(mapping);
    size_ = size;
    return data_;
}

}  // namespace eplb
