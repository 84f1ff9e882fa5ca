#include "dispatch/sglang_releases.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <tuple>

#include "core/error.hpp"

namespace eplb {
namespace {

// A rule holds from its first release, or from the day of its commit, to those of the next line.
struct Period {
    std::string_view first;
    std::string_view generation;  // what follows sglang- and sglang-dynamic-; empty: not known here
};

// Commits of sgl-project/sglang that begin a period: 2c3b71d67 (a), 9d7e82a0a (b), ec92b0cef and a56f77027 (c),
// 99e25805f and 78a4b446c (c, one stream), 77d23a796 (d). Candidates whose commit is not known belong to no rule.
constexpr std::array releases{
    Period{"0.4.7", "a"},
    Period{"0.5.3rc1", ""},
    Period{"0.5.3", "b-fill-all"},
    Period{"0.5.4.post2", "c"},
    Period{"0.5.5.post2", "c-one-stream"},
    Period{"0.5.6rc0", ""},
    Period{"0.5.6", "c"},
    Period{"0.5.16rc0", ""},
    Period{"0.5.16", "d-subset"},
};
constexpr std::array days{
    Period{"2025-05-29", "a"}, Period{"2025-09-22", "b-fill-all"},
    Period{"2025-10-28", "c"}, Period{"2025-11-11", "c-one-stream"},
    Period{"2025-11-12", "c"}, Period{"2025-11-15", "c-one-stream"},
    Period{"2025-11-21", "c"}, Period{"2026-07-16", "d-subset"},
};

// Major, minor, patch; candidates before the release, post-releases after it.
using Release = std::tuple<int, int, int, int, int>;

// A number of at most six digits at the start of `text`, which is taken off; -1 when there is none.
int take_number(std::string_view& text) {
    int value = -1;
    for (int digits = 0; digits < 6 && !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits) {
        value = std::max(value, 0) * 10 + (text.front() - '0');
        text.remove_prefix(1);
    }
    return value;
}

bool take(std::string_view& text, std::string_view start) {
    if (!text.starts_with(start)) return false;
    text.remove_prefix(start.size());
    return true;
}

std::optional<Release> release_of(std::string_view text) {
    take(text, "v");
    std::array<int, 3> parts{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0 && !take(text, ".")) return std::nullopt;
        parts[i] = take_number(text);
        if (parts[i] < 0) return std::nullopt;
    }
    int stage = 0, number = 0;
    if (take(text, "rc") || take(text, ".rc")) {
        stage = -1;
        number = take_number(text);
    } else if (take(text, ".post")) {
        stage = 1;
        number = take_number(text);
    }
    if (number < 0 || !text.empty()) return std::nullopt;
    return Release{parts[0], parts[1], parts[2], stage, number};
}

// Year, month, day in order; nothing for another text.
std::optional<Release> day_of(std::string_view text) {
    const int year = take_number(text);
    if (year < 1000 || !take(text, "-") || text.size() != 5 || text[2] != '-') return std::nullopt;
    const int month = take_number(text);
    if (!take(text, "-")) return std::nullopt;
    const int day = take_number(text);
    if (month < 1 || month > 12 || day < 1 || day > 31 || !text.empty()) return std::nullopt;
    return Release{year, month, day, 0, 0};
}

template <std::size_t size>
std::string_view generation_at(const std::array<Period, size>& periods, const Release& version, auto read) {
    std::string_view generation;
    for (const Period& period : periods) {
        if (version >= *read(period.first)) generation = period.generation;
    }
    return generation;
}

std::string_view generation_of(const std::string& version) {
    std::string_view generation;
    if (const auto day = day_of(version)) {
        generation = generation_at(days, *day, day_of);
    } else if (const auto release = release_of(version)) {
        generation = generation_at(releases, *release, release_of);
    } else {
        throw Error(ErrorCode::usage, "--engine-version", fmt::format("'{}' is no release of SGLang", version),
                    "give one such as 0.5.6 or 0.5.4.post2, or the date of the newest commit, such as 2026-07-20");
    }
    if (generation.empty()) {
        throw Error(ErrorCode::usage, "--engine-version",
                    fmt::format("how SGLang {} dispatches is not known here", version),
                    "give the date of its newest commit, or eplb-load table --match a table taken from the server");
    }
    return generation;
}

}  // namespace

void resolve_dispatch(std::span<std::string> names, const std::optional<std::string>& version) {
    bool used = false;
    for (std::string& name : names) {
        const bool dynamic = name == "sglang-dynamic";
        if (!dynamic && name != "auto" && name != "sglang") continue;
        if (!version) {
            if (name == "auto") {
                throw Error(ErrorCode::usage, "--dispatch", "auto goes by the release of SGLang, which is not given",
                            "give --engine-version V");
            }
            continue;
        }
        used = true;
        name = fmt::format("{}{}", dynamic ? "sglang-dynamic-" : "sglang-", generation_of(*version));
    }
    if (version && !used) {
        throw Error(ErrorCode::usage, "--engine-version", "no --dispatch depends on it",
                    "give --dispatch auto or sglang-dynamic with it, or drop it");
    }
}

std::string renamed_sglang_model(std::string_view name) {
    const bool dynamic = take(name, "sglang-dynamic-");
    if (!dynamic && !take(name, "sglang-")) return "";
    const std::string prefix = dynamic ? "sglang-dynamic-" : "sglang-";
    if (name == "b") {
        return fmt::format(
            "give {0}b-fill-all for SGLang of 2025-09-22 to 10-27 (0.5.3 to 0.5.4.post1), or {0}c-one-stream for "
            "2025-11-11 and 2025-11-15 to 11-20 (0.5.5.post2 and .post3)",
            prefix);
    }
    if (name == "d") {
        return fmt::format(
            "give {0}d-subset for SGLang from 2026-07-16 (0.5.16), {0}d-elastic for one in an elastically scaled "
            "world{1}",
            prefix,
            dynamic ? ", sglang-dynamic-d-no-a2a for one from 2026-07-30 without an all-to-all backend"
                    : "; from 2026-07-30 static needs an all-to-all backend");
    }
    return "";
}

}  // namespace eplb
