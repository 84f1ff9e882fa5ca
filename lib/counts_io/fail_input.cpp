#include "counts_io/fail_input.hpp"

#include <utility>

#include "core/error.hpp"

namespace eplb {

void fail_input(std::string_view finding, std::string where, std::string what, std::string hint) {
    throw Error(ErrorCode::input, std::move(where), std::move(what), std::move(hint)).as_finding(finding);
}

}  // namespace eplb
