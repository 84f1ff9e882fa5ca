#include "core/error.hpp"

#include <fmt/format.h>

#include "core/printable.hpp"

namespace eplb {

namespace {

// A part may quote a file's own words, which have no end in a hostile one; no message of ours is so long.
std::string part(const std::string& text) {
    constexpr std::size_t most = 1024;
    return printable(shortened(text, most));
}

}  // namespace

Error::Error(ErrorCode code, std::string where, std::string what, std::string hint)
    : code_(code), where_(part(where)), message_(part(what)), hint_(part(hint)) {
    line_ = fmt::format("{}{}{}{}", where_, where_.empty() ? "" : ": ", message_,
                        hint_.empty() ? "" : fmt::format(" ({})", hint_));
}

Error Error::inside(std::string_view outer) const {
    Error moved(code_, where_.empty() ? std::string(outer) : fmt::format("{}: {}", outer, where_), message_, hint_);
    moved.finding_code_ = finding_code_;
    return moved;
}

Error Error::as_finding(std::string_view finding_code) const {
    Error coded = *this;
    coded.finding_code_ = finding_code;
    return coded;
}

}  // namespace eplb
