// What a file of targets/ defines.
#pragma once

#include <cstdlib>
#include <string_view>

namespace eplb {

// Decodes the bytes, and where they are valid and there is an encoder, encodes and decodes them again: require() that
// both are the same. Throws what the decoder throws.
void decode_and_encode(std::string_view text);

// Unlike assert, also in release builds.
inline void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace eplb
