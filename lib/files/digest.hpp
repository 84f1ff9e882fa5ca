// SHA-256.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

std::string sha256_hex(std::span<const std::byte> bytes);  // 64 lower-case hex digits
std::string sha256_hex(std::string_view text);

}  // namespace eplb
