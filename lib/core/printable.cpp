#include "core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace eplb {
namespace {

// Bytes of the UTF-8 character at the front of `text`, or 0 where none stands (Unicode 15, table 3-7).
std::size_t character_size(std::string_view text) {
    const auto byte = [&](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
    const std::uint8_t lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
    for (std::size_t index = 1; index < size; ++index) {
        if ((byte(index) & 0xc0) != 0x80) return 0;
    }
    const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
    const bool surrogate = lead == 0xed && byte(1) >= 0xa0, too_large = lead == 0xf4 && byte(1) >= 0x90;
    return overlong || surrogate || too_large ? 0 : size;
}

// C0, DEL, and C1, which some terminals obey too.
bool is_control(std::string_view character) {
    const auto lead = static_cast<std::uint8_t>(character[0]);
    if (character.size() == 1) return lead < 0x20 || lead == 0x7f;
    return lead == 0xc2 && static_cast<std::uint8_t>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string shown;
    shown.reserve(text.size());
    while (!text.empty()) {
        const std::size_t size = character_size(text);
        if (size == 0 || is_control(text.substr(0, size))) {
            shown += '?';
        } else {
            shown += text.substr(0, size);
        }
        text.remove_prefix(size == 0 ? 1 : size);
    }
    return shown;
}

std::string shortened(std::string_view text, std::size_t most) {
    if (text.size() <= most) return std::string(text);
    std::size_t size = most;
    const auto continues = [&](std::size_t at) { return (static_cast<std::uint8_t>(text[at]) & 0xc0) == 0x80; };
    for (std::size_t step = 0; step < 3 && size > 0 && continues(size); ++step) --size;
    return std::string(text.substr(0, size)) + "...";
}

std::string first_few(std::span<const std::string> names, std::size_t most) {
    constexpr std::size_t enough = 80;
    std::string list;
    for (const std::string& name : names.first(std::min(most, names.size()))) {
        list += fmt::format("{}{}", list.empty() ? "" : ", ", shortened(name, enough));
    }
    if (names.size() > most) list += fmt::format(" and {} more", names.size() - most);
    return list;
}

}  // namespace eplb
