// Feeds arbitrary bytes to one decoder: it may only return or throw Error{input}.
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        eplb::decode_and_encode({reinterpret_cast<const char*>(data), size});
    } catch (const eplb::Error& error) {
        if (error.code() != eplb::ErrorCode::input) std::abort();
    }
    return 0;
}
