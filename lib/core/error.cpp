#include "core/error.hpp"

#include <fmt/format.h>

#include "core/printable.hpp"

namespace eplb {

Error::Error(ErrorCode code, std::string where, std::string what, std::string hint)
    : code_(code), where_(printable(where)), message_(printable(what)), hint_(printable(hint)) {
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
