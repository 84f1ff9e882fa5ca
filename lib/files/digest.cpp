#include "files/digest.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "core/error.hpp"

namespace eplb {
namespace {

void require(int succeeded) {
    if (succeeded != 1) throw Error(ErrorCode::internal, "", "OpenSSL has no SHA-256");
}

std::string hex_of(std::span<const unsigned char> digest) {
    std::string hex;
    for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
    return hex;
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    require(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr));
    return hex_of({digest.data(), size});
}

std::string sha256_hex(std::string_view text) {
    return sha256_hex(std::as_bytes(std::span(text)));
}

struct Sha256::State {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
    require(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
    require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    require(EVP_DigestFinal_ex(state_->context, digest.data(), &size));
    return hex_of({digest.data(), size});
}

}  // namespace eplb
