// How a reader refuses what it reads.
#pragma once

#include <string>
#include <string_view>

namespace eplb {

// Throws Error{input} under the finding code `finding`, at `where` inside the file.
[[noreturn]] void fail_input(std::string_view finding, std::string where, std::string what, std::string hint = "");

}  // namespace eplb
