#include "counts_io/name_facts.hpp"

#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>

namespace eplb {

std::string base_name_of(std::string_view path) {
    return std::filesystem::path(path).filename().string();
}

std::optional<std::int64_t> number_in_name(std::string_view path, std::string_view word) {
    const std::string name = base_name_of(path);
    const std::size_t at = name.rfind(word);
    if (at == std::string::npos) return std::nullopt;
    std::string_view rest = std::string_view(name).substr(at + word.size());
    if (rest.starts_with('_') || rest.starts_with('-')) rest.remove_prefix(1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || end == rest.data() || number < 0) return std::nullopt;
    return number;
}

std::optional<int> rank_in_name(std::string_view path) {
    const std::optional<std::int64_t> rank = number_in_name(path, "rank");
    if (!rank || *rank > std::numeric_limits<int>::max()) return std::nullopt;
    return static_cast<int>(*rank);
}

std::string neighbour_of(std::string_view path, std::string_view name) {
    if (path == "-") return "";
    const std::filesystem::path neighbour = std::filesystem::path(path).parent_path() / name;
    std::error_code ignored;
    return std::filesystem::is_regular_file(neighbour, ignored) ? neighbour.string() : "";
}

}  // namespace eplb
