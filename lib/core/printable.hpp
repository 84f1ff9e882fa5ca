// Text from outside, made fit for a terminal and for JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

// `text` with every control character and every byte that is no part of UTF-8 replaced by '?': one line, that moves no
// cursor and that every JSON writer takes.
std::string printable(std::string_view text);

// At most the first `most` bytes of `text`, with "..." where something was cut off; no UTF-8 character is cut in two.
std::string shortened(std::string_view text, std::size_t most);

// "a, b, c": the first `most` of the names, each shortened, then " and 23 more".
std::string first_few(std::span<const std::string> names, std::size_t most = 8);

}  // namespace eplb
