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

std::string hex_of(std::span<const std::byte> digest) {
    std::string hex;
    for (const std::byte byte : digest) hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return hex;
}

}  // namespace

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes) {
    std::array<std::byte, 32> digest;
    require(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
                       EVP_sha256(), nullptr));
    return digest;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
    return hex_of(sha256(bytes));
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
    std::array<std::byte, 32> digest;
    require(EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.data()), nullptr));
    return hex_of(digest);
}

}  // namespace eplb
