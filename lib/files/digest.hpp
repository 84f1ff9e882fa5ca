// SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::byte> bytes);  // 64 lower-case hex digits
std::string sha256_hex(std::string_view text);

// The same for bytes that come piece by piece.
class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;

    void update(std::span<const std::byte> bytes);
    std::string hex();  // ends the digest: call it once

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace eplb
