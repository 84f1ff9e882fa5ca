#include "cli/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/app.hpp"

namespace eplb::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Bar {
    std::string what;
    Clock::time_point started = Clock::now(), drawn = started;
    bool visible = false;

    void draw(int done, int total, double best) {
        const auto now = Clock::now();
        if (now - started < std::chrono::seconds(1) || now - drawn < std::chrono::milliseconds(100)) return;
        drawn = now;
        visible = true;
        std::fputs(fmt::format("\r{}\033[K", progress_line(what, done, total, best)).c_str(), stderr);
        std::fflush(stderr);
    }
    ~Bar() {
        if (visible) std::fputs("\r\033[K", stderr);
    }
};

}  // namespace

std::string progress_line(const std::string& what, int done, int total, double best) {
    constexpr int width = 30;
    const int filled = total > 0 ? static_cast<int>(static_cast<long long>(width) * done / total) : 0;
    const std::string figure = best > 0 ? fmt::format(", best {:.4f} so far", best) : std::string();
    return fmt::format("{} [{:<{}}] {}/{}{}", what, std::string(static_cast<std::size_t>(filled), '#'), width, done,
                       total, figure);
}

Progress progress_bar(std::string what) {
    Progress progress;
    progress.stop_requested = stop_requested;
    if (isatty(STDERR_FILENO)) {
        auto bar = std::make_shared<Bar>();
        bar->what = std::move(what);
        progress.report = [bar](int done, int total, double best) { bar->draw(done, total, best); };
    }
    return progress;
}

}  // namespace eplb::cli
