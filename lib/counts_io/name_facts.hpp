// What an engine's recorder says in the name of its file, and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace eplb {

// The digits behind the last "rank" of the name: "rank0.safetensors", "..._rank_12.txt". Nullopt where there are none.
std::optional<int> rank_in_name(std::string_view path);

// The digits behind the last `word` of the file's name.
std::optional<std::int64_t> number_in_name(std::string_view path, std::string_view word);

std::string base_name_of(std::string_view path);
// A file beside `path` that exists; empty where there is none, and for what is no path ("-").
std::string neighbour_of(std::string_view path, std::string_view name);

}  // namespace eplb
