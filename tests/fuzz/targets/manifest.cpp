#include "layout_io/manifest.hpp"

#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const std::string encoded = encode_manifest(decode_manifest(text));
    require(encode_manifest(decode_manifest(encoded)) == encoded);
}
