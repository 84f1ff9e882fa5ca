// Text from outside, made fit for a terminal and for JSON.
#pragma once

#include <string>
#include <string_view>

namespace eplb {

// `text` with every control character and every byte that is no part of UTF-8 replaced by '?': one line, that moves no
// cursor and that every JSON writer takes.
std::string printable(std::string_view text);

}  // namespace eplb
