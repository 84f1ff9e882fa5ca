#include "counts_io/window_sidecar.hpp"

#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const WindowSidecar sidecar = decode_window_sidecar(text);
    require(facts_of(sidecar).sequence.size() == static_cast<std::size_t>(sidecar.records));
    const std::string encoded = encode_window_sidecar(sidecar);
    require(encode_window_sidecar(decode_window_sidecar(encoded)) == encoded);
}
