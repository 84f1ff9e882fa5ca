#include "counts_io/expand_inputs.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace eplb {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Runs of digits compare as numbers, everything else by bytes.
bool before_by_number(std::string_view a, std::string_view b) {
    const std::string_view whole_a = a, whole_b = b;
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            const auto run = [](std::string_view& text) {
                std::size_t end = 0;
                while (end < text.size() && is_digit(text[end])) ++end;
                std::string_view digits = text.substr(0, end);
                text.remove_prefix(end);
                while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
                return digits;
            };
            const std::string_view left = run(a), right = run(b);
            if (left != right) return std::pair(left.size(), left) < std::pair(right.size(), right);
        } else if (a.front() != b.front()) {
            return a.front() < b.front();
        } else {
            a.remove_prefix(1);
            b.remove_prefix(1);
        }
    }
    return std::tuple(a.size(), whole_a) < std::tuple(b.size(), whole_b);
}

// What lies beside counts and is none.
bool is_companion(const fs::path& path) {
    const std::string name = path.filename().string();
    constexpr std::array<std::string_view, 2> names{"meta_info.json", "model_gen_config.json"};
    constexpr std::array<std::string_view, 4> endings{".window.json", ".manifest.json", "_numtokens.json", ".tmp"};
    constexpr std::array<std::string_view, 4> beginnings{".", "cooccurrence_rank", "token_selected_experts_rank",
                                                         "model_gen_config"};
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    if (std::find(names.begin(), names.end(), name) != names.end()) return true;
    if (std::any_of(endings.begin(), endings.end(), ends)) return true;
    if (std::any_of(beginnings.begin(), beginnings.end(),
                    [&](std::string_view start) { return name.starts_with(start); })) {
        return true;
    }
    if (name.starts_with("decode_topk_") || name.starts_with("prefill_topk_")) return true;
    constexpr std::string_view backup = "_bak.csv";
    std::error_code ignored;
    return name.ends_with(backup) &&
           fs::exists(path.parent_path() / (name.substr(0, name.size() - backup.size()) + ".csv"), ignored);
}

std::vector<std::string> files_of(const std::string& folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code ignored;
        if (entry->is_regular_file(ignored) && !is_companion(entry->path())) files.push_back(entry->path().string());
    }
    if (error) throw Error(ErrorCode::input, folder, error.message());
    if (files.empty()) {
        throw Error(ErrorCode::input, folder, "the folder holds no count file",
                    "sub-folders are not searched: name them, or a pattern in quotes");
    }
    return files;
}

std::vector<std::string> files_matching(const std::string& pattern) {
    glob_t found{};
    const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<std::string> files;
    for (std::size_t index = 0; result == 0 && index < found.gl_pathc; ++index) {
        files.emplace_back(found.gl_pathv[index]);
    }
    ::globfree(&found);
    if (files.empty()) throw Error(ErrorCode::input, pattern, "no file matches the pattern", "check the path");
    return files;
}

}  // namespace

std::vector<std::string> expand_inputs(const std::vector<std::string>& paths) {
    std::vector<std::string> expanded;
    for (const std::string& path : paths) {
        std::error_code ignored;
        std::vector<std::string> files{path};
        if (path != "-" && fs::is_directory(path, ignored)) {
            files = files_of(path);
        } else if (path.find_first_of("*?[") != std::string::npos && !fs::exists(path, ignored)) {
            files = files_matching(path);
        }
        std::sort(files.begin(), files.end(), before_by_number);
        std::move(files.begin(), files.end(), std::back_inserter(expanded));
    }
    return expanded;
}

}  // namespace eplb
