#include "layout_io/dispatch_file.hpp"
#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const DispatchTableManifest manifest = decode_dispatch_table_manifest(text);
    require(decode_dispatch_table_manifest(encode_dispatch_table_manifest(manifest)) == manifest);
}
