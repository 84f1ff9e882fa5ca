#include "files/digest.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "core/error.hpp"

namespace eplb {

std::string sha256_hex(std::span<const std::byte> bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
        throw Error(ErrorCode::internal, "", "OpenSSL has no SHA-256");
    }
    std::string hex;
    for (unsigned int index = 0; index < size; ++index) hex += fmt::format("{:02x}", digest[index]);
    return hex;
}

std::string sha256_hex(std::string_view text) {
    return sha256_hex(std::as_bytes(std::span(text)));
}

}  // namespace eplb
