#include "core/error.hpp"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

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

void rethrow_inside(std::string_view place) {
    constexpr const char* what = "needs more memory than this process may take";
    constexpr const char* hint = "give it more (ulimit -v, the container's limit), or read it in parts";
    try {
        throw;
    } catch (const Error& error) {
        throw error.inside(place);
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::input, std::string(place), what, hint);
    } catch (const std::length_error&) {
        throw Error(ErrorCode::input, std::string(place), what, hint);
    }
}

Error Error::as_finding(std::string_view finding_code) const {
    Error coded = *this;
    coded.finding_code_ = finding_code;
    return coded;
}

}  // namespace eplb
