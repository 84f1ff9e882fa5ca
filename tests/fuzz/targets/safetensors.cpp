#include "files/safetensors.hpp"

#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const SafetensorsFile file = SafetensorsFile::parse(MappedFile::copy_of("x", std::as_bytes(std::span(text))));
    for (const SafetensorsEntry& entry : file.entries()) {
        require(file.find(entry.name) != nullptr && file.bytes(entry).size() == entry.bytes());
    }
    std::string again = encode_safetensors_header(file.entries(), file.metadata());
    again += text.substr(file.data_offset());
    const SafetensorsFile same = SafetensorsFile::parse(MappedFile::copy_of("x", std::as_bytes(std::span(again))));
    require(same.entries() == file.entries() && same.metadata() == file.metadata());
}
