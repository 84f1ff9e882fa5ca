#include "loader/admission.hpp"
#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    // Texts are written printable(), so that the first encoding may change them.
    const std::string encoded = encode_attestation(decode_attestation(text));
    require(encode_attestation(decode_attestation(encoded)) == encoded);
}
