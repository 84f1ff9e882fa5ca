// Nothing of ours is written that our own reader would refuse, or would understand in another way than it was meant.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace eplb {

// Returns `encoded`, the bytes of a file of the kind `what`, once decode(encoded) is equal to `meant`. Throws
// Error{internal} that quotes the reader's complaint when it refuses them, or when it reads another value.
template <typename Encoded, typename Value, typename Decode>
Encoded require_reads_back(std::string_view what, Encoded encoded, const Value& meant, const Decode& decode) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::internal, std::string(what), "was not written: " + why, "please report this bug");
    };
    try {
        if (decode(encoded) != meant) refuse("it reads back as something else");
    } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) throw;
        refuse(std::string("its own reader refuses it: ") + error.what());
    }
    return encoded;
}

}  // namespace eplb
